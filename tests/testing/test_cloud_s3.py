"""S3 in the local cloud: moto's, plus a memory of uploads, parts and objects."""

from __future__ import annotations

import time

import pytest
from botocore.exceptions import ClientError
from cloud_clients import Clients, refused, send

from penstock.testing import LocalCloud, LocalCloudError, UploadState

PART = bytes(5 * 1024 * 1024)


@pytest.fixture
def bucket(cloud: LocalCloud) -> str:
    cloud.s3.create_bucket("reports")
    return "reports"


@pytest.mark.parametrize(
    "key", ["a", "folder/a b+c.txt", "percent %2F", "ümlaut/日本.bin", "a=b&c"]
)
def test_an_object_is_kept_with_its_metadata(
    cloud: LocalCloud, clients: Clients, bucket: str, key: str
) -> None:
    metadata = {"plain": "1", "with-dash": "2", "with_underscore": "3"}
    clients.s3.put_object(
        Bucket=bucket, Key=key, Body=b"\x00content", Metadata=metadata, ContentType="text/plain"
    )

    kept = cloud.s3.object(bucket, key)
    assert (kept.body, kept.content_type, kept.metadata) == (
        b"\x00content",
        "text/plain",
        metadata,
    )
    assert cloud.s3.keys(bucket) == [key]
    assert clients.s3.get_object(Bucket=bucket, Key=key)["Body"].read() == b"\x00content"
    assert clients.s3.head_object(Bucket=bucket, Key=key)["ContentLength"] == 8


def test_an_object_that_is_not_there_is_a_key_error(cloud: LocalCloud, bucket: str) -> None:
    with pytest.raises(KeyError, match="reports/nothing"):
        cloud.s3.object(bucket, "nothing")


def test_a_multipart_upload_is_seen_part_by_part(
    cloud: LocalCloud, clients: Clients, bucket: str
) -> None:
    upload_id = clients.s3.create_multipart_upload(Bucket=bucket, Key="big", Metadata={"a": "b"})[
        "UploadId"
    ]
    upload = cloud.s3.uploads(bucket)[0]
    assert (upload.upload_id, upload.key, upload.state) == (upload_id, "big", UploadState.OPEN)

    etags = [
        clients.s3.upload_part(
            Bucket=bucket, Key="big", UploadId=upload_id, PartNumber=number, Body=body
        )["ETag"]
        for number, body in ((1, PART), (2, b"wrong"), (2, b"end"))
    ]
    clients.s3.complete_multipart_upload(
        Bucket=bucket,
        Key="big",
        UploadId=upload_id,
        MultipartUpload={
            "Parts": [
                {"PartNumber": 1, "ETag": etags[0]},
                {"PartNumber": 2, "ETag": etags[2]},
            ]
        },
    )

    assert upload.state is UploadState.COMPLETED
    assert [(part.number, part.size_bytes) for part in upload.parts] == [
        (1, len(PART)),
        (2, 5),
        (2, 3),
    ]
    assert [f'"{part.etag}"' for part in upload.parts] == etags
    stored = cloud.s3.stored(bucket)
    assert [(entry.key, entry.size_bytes, entry.upload_id) for entry in stored] == [
        ("big", len(PART) + 3, upload_id)
    ]
    assert cloud.s3.object(bucket, "big").body == PART + b"end"
    assert cloud.s3.object(bucket, "big").metadata == {"a": "b"}


def test_an_aborted_upload_is_seen_and_leaves_no_object(
    cloud: LocalCloud, clients: Clients, bucket: str
) -> None:
    upload_id = clients.s3.create_multipart_upload(Bucket=bucket, Key="big")["UploadId"]
    clients.s3.abort_multipart_upload(Bucket=bucket, Key="big", UploadId=upload_id)

    assert [upload.state for upload in cloud.s3.uploads(bucket)] == [UploadState.ABORTED]
    assert cloud.s3.stored(bucket) == []
    with refused("NoSuchUpload", 404):
        clients.s3.upload_part(
            Bucket=bucket, Key="big", UploadId=upload_id, PartNumber=1, Body=b"x"
        )
    with refused("NoSuchUpload", 404):
        clients.s3.list_parts(Bucket=bucket, Key="big", UploadId=upload_id)


def test_finished_parts_can_be_listed_after_a_crash(clients: Clients, bucket: str) -> None:
    upload_id = clients.s3.create_multipart_upload(Bucket=bucket, Key="big")["UploadId"]
    clients.s3.upload_part(Bucket=bucket, Key="big", UploadId=upload_id, PartNumber=1, Body=PART)

    (found,) = clients.s3.list_multipart_uploads(Bucket=bucket)["Uploads"]
    assert (found["Key"], found["UploadId"]) == ("big", upload_id)
    parts = clients.s3.list_parts(Bucket=bucket, Key="big", UploadId=upload_id)["Parts"]
    assert [(part["PartNumber"], part["Size"]) for part in parts] == [(1, len(PART))]


def test_each_open_upload_is_listed_with_the_time_of_its_creation(
    cloud: LocalCloud, clients: Clients, bucket: str
) -> None:
    before_s = time.time()
    for key in ("first", "second"):
        clients.s3.create_multipart_upload(Bucket=bucket, Key=key)
    cloud.forget()

    listed = {
        found["Key"]: found["Initiated"].timestamp()
        for found in clients.s3.list_multipart_uploads(Bucket=bucket)["Uploads"]
    }

    created = {upload.key: upload.created_s for upload in cloud.s3.uploads(bucket)}
    assert before_s <= created["first"] < created["second"] <= time.time()
    assert listed == pytest.approx(created, abs=0.002)


def test_a_part_that_is_too_small_is_refused_at_the_end(
    cloud: LocalCloud, clients: Clients, bucket: str
) -> None:
    upload_id = clients.s3.create_multipart_upload(Bucket=bucket, Key="big")["UploadId"]
    parts = [
        {
            "PartNumber": number,
            "ETag": clients.s3.upload_part(
                Bucket=bucket, Key="big", UploadId=upload_id, PartNumber=number, Body=b"small"
            )["ETag"],
        }
        for number in (1, 2)
    ]
    with refused("EntityTooSmall", 400):
        clients.s3.complete_multipart_upload(
            Bucket=bucket, Key="big", UploadId=upload_id, MultipartUpload={"Parts": parts}
        )
    assert cloud.s3.uploads(bucket)[0].state is UploadState.OPEN


def test_one_kind_of_request_can_fail_after_some_went_well(
    cloud: LocalCloud, clients: Clients, bucket: str
) -> None:
    cloud.s3.fail(operation="UploadPart", after=1, times=1)
    upload_id = clients.s3.create_multipart_upload(Bucket=bucket, Key="big")["UploadId"]

    def upload(number: int) -> None:
        clients.s3.upload_part(
            Bucket=bucket, Key="big", UploadId=upload_id, PartNumber=number, Body=PART
        )

    upload(1)
    with refused("InternalError", 500):
        upload(2)
    upload(2)
    assert [part.number for part in cloud.s3.uploads(bucket)[0].parts] == [1, 2]


def test_a_completion_can_fail_with_status_200(
    cloud: LocalCloud, clients: Clients, bucket: str
) -> None:
    """As the real service does when it has already sent the head of its answer."""
    cloud.s3.fail(operation="CompleteMultipartUpload", status=200)
    upload_id = clients.s3.create_multipart_upload(Bucket=bucket, Key="big")["UploadId"]
    etag = clients.s3.upload_part(
        Bucket=bucket, Key="big", UploadId=upload_id, PartNumber=1, Body=b"x"
    )["ETag"]
    with pytest.raises(ClientError) as caught:
        clients.s3.complete_multipart_upload(
            Bucket=bucket,
            Key="big",
            UploadId=upload_id,
            MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]},
        )
    assert caught.value.response["Error"]["Code"] == "InternalError"
    assert cloud.s3.stored(bucket) == []


def test_a_bucket_that_was_never_made_is_not_found(clients: Clients) -> None:
    with refused("NoSuchBucket", 404):
        clients.s3.put_object(Bucket="nowhere", Key="k", Body=b"x")


def test_buckets_can_be_made_by_clients_and_outside_of_us_east_1() -> None:
    with LocalCloud(region="eu-central-1") as cloud, Clients(cloud) as clients:
        cloud.s3.create_bucket("ours")
        clients.s3.create_bucket(
            Bucket="theirs", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"}
        )
        names = [bucket["Name"] for bucket in clients.s3.list_buckets()["Buckets"]]
    assert sorted(names) == ["ours", "theirs"]


def test_a_bucket_that_is_made_twice_keeps_its_objects(
    cloud: LocalCloud, clients: Clients, bucket: str
) -> None:
    clients.s3.put_object(Bucket=bucket, Key="k", Body=b"precious")
    clients.s3.create_bucket(Bucket=bucket)  # us-east-1 does not mind
    assert cloud.s3.object(bucket, "k").body == b"precious"


def test_a_bad_bucket_name_is_refused(cloud: LocalCloud) -> None:
    with pytest.raises(LocalCloudError, match="InvalidBucketName"):
        cloud.s3.create_bucket("x")


def test_settings_of_a_bucket_are_not_taken_for_its_creation(
    cloud: LocalCloud, clients: Clients, bucket: str
) -> None:
    clients.s3.put_object(Bucket=bucket, Key="k", Body=b"precious")
    clients.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    clients.s3.copy_object(Bucket=bucket, Key="copy", CopySource=f"{bucket}/k")
    assert cloud.request_count("s3", "CreateBucket") == 0
    assert cloud.request_count("s3", "CopyObject") == 1
    assert cloud.s3.object(bucket, "copy").body == b"precious"


def presigned(cloud: LocalCloud, bucket: str) -> str:
    client = cloud.client("s3", signature_version="s3v4")
    try:
        url = client.generate_presigned_url("put_object", {"Bucket": bucket, "Key": "k"})
    finally:
        client.close()
    return str(url)


def test_a_presigned_url_works(cloud: LocalCloud, bucket: str) -> None:
    url = presigned(cloud, bucket)
    assert send(url, b"by url", "PUT").status == 200
    assert cloud.s3.object(bucket, "k").body == b"by url"


def test_a_virtual_host_names_the_bucket(cloud: LocalCloud, bucket: str) -> None:
    """SDKs do so when the endpoint has a name; the name here is only a header."""
    url = presigned(cloud, bucket).replace(f"/{bucket}/", "/")
    answer = send(url, b"x", "PUT", {"Host": f"{bucket}.localhost:1"})
    assert answer.status == 200
    assert cloud.s3.object(bucket, "k").body == b"x"


def test_an_unsigned_request_is_refused(cloud: LocalCloud, bucket: str) -> None:
    answer = send(f"{cloud.endpoint}/{bucket}/key", b"x", "PUT")
    assert answer.status == 403
    assert b"<Code>AccessDenied</Code>" in answer.body
