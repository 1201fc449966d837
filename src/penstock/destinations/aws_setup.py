"""What botocore finds on this machine: credentials, region, addresses. For those who look on."""

from __future__ import annotations

from dataclasses import dataclass

from botocore import exceptions

from penstock.destinations.aws import REMEDY_NO_CREDENTIALS, one_line, session_and_region
from penstock.destinations.base import Blocked

# botocore's names for where it found credentials, in words.
METHODS = {
    "env": "variables of the environment",
    "shared-credentials-file": "a profile in the credentials file",
    "config-file": "a profile in the configuration file",
    "assume-role": "an assumed role",
    "assume-role-with-web-identity": "a role assumed with a web identity",
    "sso": "a single sign-on",
    "custom-process": "a program named in the configuration file",
    "container-role": "the role of a container or a Greengrass core",
    "iam-role": "the role of the machine",
    "boto2": "an old boto configuration file",
}


@dataclass(frozen=True)
class Setup:
    """Nothing in it is secret."""

    kind: str  # of the credentials, in words
    region: str | None


def find_setup() -> Setup:
    """The credentials that exports would use now. Blocked says why there are none."""
    try:
        session, region = session_and_region()
        credentials = session.get_credentials()
        if credentials is None:
            raise Blocked(REMEDY_NO_CREDENTIALS)
        credentials.get_frozen_credentials()  # those that must be fetched are fetched now
    except exceptions.BotoCoreError as error:
        raise Blocked(one_line(error)) from error
    return Setup(METHODS.get(credentials.method, credentials.method), region)


def endpoint_of(service: str) -> str | None:
    """The address of a service as botocore finds it; None without a region."""
    try:
        session, region = session_and_region()
        client = session.create_client(service, region_name=region)
    except exceptions.BotoCoreError:
        return None
    try:
        return str(client.meta.endpoint_url)
    finally:
        client.close()
