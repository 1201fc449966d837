/* A program as users of AWS's Node SDK write it: one scenario, results as lines of JSON.
 *
 * The same scenarios as program.py, and the same names in the results. The server's port comes from
 * STREAM_MANAGER_SERVER_PORT.
 */

'use strict';

const assert = require('assert');
const { once } = require('events');
const net = require('net');
const readline = require('readline');

const sdk = require('aws-greengrass-core-sdk').StreamManager;

const { Persistence, ReadMessagesOptions, StrategyOnFull, StreamManagerException } = sdk;

const MIB = 1024 * 1024;
const PARALLEL = 20;

/* Standard output carries the results, so the SDK's log goes to standard error. */
const logger = {
    error: console.error, warn: console.error, info: console.error, debug: () => {},
};

/* The constructor starts to connect and drops the promise, so a refusal arrives twice: in the error
 * callback, where it is handled, and here, where it would end the process. */
process.on('unhandledRejection', (error) => console.error('unhandled:', error));

/* The SDK hides its socket; only the socket's own event says that it noticed the server's death. */
const sockets = [];
const { createConnection } = net;
net.createConnection = (...options) => {
    const socket = createConnection(...options);
    sockets.push(socket);
    return socket;
};

const connect = () => new Promise((resolve, reject) => {
    const client = new sdk.StreamManagerClient({
        logger,
        onConnectCb: () => resolve(client),
        onErrorCb: reject,
    });
});

/* All seven, in the order in which a program's life uses them. */
const operations = async () => {
    const client = await connect();
    const results = {};
    try {
        await client.deleteMessageStream('Minimal');
    } catch (error) {
        results['nothing to delete'] = error instanceof sdk.ResourceNotFoundException;
    }
    await client.createMessageStream(
        new sdk.MessageStreamDefinition()
            .withName('Minimal')
            .withStrategyOnFull(StrategyOnFull.OverwriteOldestData),
    );
    await client.createMessageStream(fullDefinition());
    await client.createMessageStream(definitionWithEveryNull());
    results.names = await client.listStreams();
    results.minimal = (await client.describeMessageStream('Minimal')).asMap();
    results.full = (await client.describeMessageStream('Full, with all.log')).asMap();
    results.nones = (await client.describeMessageStream('Nones')).asMap();
    results.messages = await appendAndRead(client);
    results.json = await appendAndReadJson(client);
    results.update = await update(client);
    await client.deleteMessageStream('Minimal');
    results['names after delete'] = await client.listStreams();
    results['describe after delete'] = await caught(client.describeMessageStream('Minimal'));
    client.close();
    return results;
};

/* Every field of every type, none of them at its default. */
const fullDefinition = () => {
    const common = (config, identifier, priority) => config
        .withIdentifier(identifier)
        .withPriority(priority)
        .withDisabled(true);
    const batched = (config, identifier, priority, batchSize) => common(config, identifier, priority)
        .withBatchSize(batchSize)
        .withBatchIntervalMillis(60000)
        .withStartSequenceNumber(0);
    return new sdk.MessageStreamDefinition()
        .withName('Full, with all.log')
        .withMaxSize(64 * MIB)
        .withStreamSegmentSize(MIB)
        .withTimeToLiveMillis(3600000)
        .withStrategyOnFull(StrategyOnFull.RejectNewData)
        .withPersistence(Persistence.File)
        .withFlushOnWrite(true)
        .withExportDefinition(new sdk.ExportDefinition()
            .withHttp([batched(new sdk.HTTPConfig(), 'http', 1, 20)
                .withUri('http://127.0.0.1:9/')
                .withExportFormat(sdk.ExportFormat.JSON_BATCHED)])
            .withIotAnalytics([batched(new sdk.IoTAnalyticsConfig(), 'analytics', 2, 30)
                .withIotChannel('channel')
                .withIotMsgIdPrefix('prefix')])
            .withKinesis([batched(new sdk.KinesisConfig(), 'kinesis', 3, 40)
                .withKinesisStreamName('target')])
            .withIotSitewise([batched(new sdk.IoTSiteWiseConfig(), 'sitewise', 4, 5)])
            .withS3TaskExecutor([common(new sdk.S3ExportTaskExecutorConfig(), 's3', 10)
                .withSizeThresholdForMultipartUploadBytes(8 * MIB)
                .withStatusConfig(new sdk.StatusConfig()
                    .withStatusLevel(sdk.StatusLevel.TRACE)
                    .withStatusStreamName('Minimal'))]));
};

/* The guide's way of showing optional values: written out as null. */
const definitionWithEveryNull = () => new sdk.MessageStreamDefinition()
    .withName('Nones')
    .withMaxSize(268435456)
    .withStreamSegmentSize(16777216)
    .withTimeToLiveMillis(null)
    .withStrategyOnFull(StrategyOnFull.OverwriteOldestData)
    .withPersistence(Persistence.Memory)
    .withFlushOnWrite(false)
    .withExportDefinition(new sdk.ExportDefinition()
        .withKinesis(null)
        .withIotAnalytics(null)
        .withIotSitewise(null)
        .withS3TaskExecutor(null));

const appendAndRead = async (client) => {
    const beforeMs = Date.now();
    const numbers = [];
    for (const data of ['one', '\x00\xff', 'three']) {
        numbers.push(await client.appendMessage('Minimal', Buffer.from(data, 'latin1')));
    }
    const afterMs = Date.now();
    const all = await client.readMessages('Minimal', new ReadMessagesOptions()
        .withDesiredStartSequenceNumber(0)
        .withMinMessageCount(3)
        .withMaxMessageCount(10)
        .withReadTimeoutMillis(1000));
    const twoAndNoMaximum = new ReadMessagesOptions().withMinMessageCount(2);
    const fromOne = new ReadMessagesOptions()
        .withDesiredStartSequenceNumber(1)
        .withMinMessageCount(1)
        .withMaxMessageCount(1);
    return {
        numbers,
        'without options': contents(await client.readMessages('Minimal')),
        'two and no maximum': contents(await client.readMessages('Minimal', twoAndNoMaximum)),
        'one from the middle': contents(await client.readMessages('Minimal', fromOne)),
        all: contents(all),
        'stream names': [...new Set(all.map((message) => message.streamName))],
        'ingest times are right': all.every(
            (message) => beforeMs <= message.ingestTime && message.ingestTime <= afterMs,
        ),
        storage: (await client.describeMessageStream('Minimal')).storageStatus.asMap(),
    };
};

/* Payloads for S3 and SiteWise exports, made and read with the SDK's helpers. */
const appendAndReadJson = async (client) => {
    const task = new sdk.S3ExportTaskDefinition()
        .withInputUrl('file:///tmp/input')
        .withBucket('bucket')
        .withKey('key/!{timestamp:yyyy/MM}')
        .withUserMetadata({ colour: 'blue' });
    const value = new sdk.AssetPropertyValue()
        .withValue(new sdk.Variant().withDoubleValue(1.5))
        .withTimestamp(new sdk.TimeInNanos().withTimeInSeconds(1700000000).withOffsetInNanos(7))
        .withQuality(sdk.Quality.GOOD);
    const entry = new sdk.PutAssetPropertyValueEntry()
        .withEntryId('entry-1')
        .withPropertyAlias('/a/b')
        .withPropertyValues([value]);
    const name = 'Full, with all.log';
    for (const data of [task, entry]) {
        await client.appendMessage(name, sdk.util.validateAndSerializeToJsonBytes(data));
    }
    const options = new ReadMessagesOptions().withMinMessageCount(2);
    const [first, second] = await client.readMessages(name, options);
    const taskAgain = sdk.util.deserializeJsonBytesToObj(first.payload, sdk.S3ExportTaskDefinition);
    const entryAgain = sdk.util.deserializeJsonBytesToObj(
        second.payload,
        sdk.PutAssetPropertyValueEntry,
    );
    return {
        payloads: [JSON.parse(first.payload), JSON.parse(second.payload)],
        key: taskAgain.key,
        value: entryAgain.propertyValues[0].value.doubleValue,
    };
};

/* The guide's way: describe, change, send back. */
const update = async (client) => {
    const { definition } = await client.describeMessageStream('Minimal');
    await client.updateMessageStream(definition);
    definition.exportDefinition.kinesis = [new sdk.KinesisConfig()
        .withIdentifier('added')
        .withKinesisStreamName('target')
        .withBatchSize(500)
        .withDisabled(true)];
    await client.updateMessageStream(definition
        .withMaxSize(512 * MIB)
        .withStreamSegmentSize(32 * MIB)
        .withTimeToLiveMillis(3600000)
        .withStrategyOnFull(StrategyOnFull.RejectNewData)
        .withFlushOnWrite(true));
    return (await client.describeMessageStream('Minimal')).asMap();
};

/* Everything that a server refuses, and that the connection survives it. */
const errors = async () => {
    const client = await connect();
    const small = new sdk.MessageStreamDefinition()
        .withName('Small')
        .withMaxSize(1024)
        .withStrategyOnFull(StrategyOnFull.RejectNewData);
    await client.createMessageStream(small);
    await client.appendMessage('Small', Buffer.alloc(900));
    await client.createMessageStream(plain('Memory').withPersistence(Persistence.Memory));
    await client.createMessageStream(plain('File'));
    await client.appendMessage('File', Buffer.from('the only one'));
    const twice = plain('New').withExportDefinition(exportsOfOneName());
    const results = {
        'create twice': await caught(client.createMessageStream(small)),
        'append to unknown': await caught(client.appendMessage('Unknown', Buffer.from('x'))),
        'read unknown': await caught(client.readMessages('Unknown')),
        'describe unknown': await caught(client.describeMessageStream('Unknown')),
        'update unknown': await caught(client.updateMessageStream(plain('Unknown'))),
        'delete unknown': await caught(client.deleteMessageStream('Unknown')),
        'append to full': await caught(client.appendMessage('Small', Buffer.alloc(900))),
        'append more than fits': await caught(client.appendMessage('Small', Buffer.alloc(2000))),
        'append nothing': await caught(client.appendMessage('File', Buffer.alloc(0))),
        'create too small': await caught(client.createMessageStream(plain('New').withMaxSize(1))),
        'create with identifier twice': await caught(client.createMessageStream(twice)),
        ...await readErrors(client),
        ...await updateErrors(client),
        'streams afterwards': await client.listStreams(),
        'append afterwards': await client.appendMessage('File', Buffer.from('the second one')),
    };
    client.close();
    results['list after close'] = await caught(client.listStreams());
    return results;
};

const readErrors = async (client) => {
    const options = () => new ReadMessagesOptions();
    const read = (wanted) => caught(client.readMessages('File', wanted));
    return {
        'read past the end': await read(options().withDesiredStartSequenceNumber(1)),
        'read too many': await read(options().withMinMessageCount(2)),
        'wait for too many': await read(
            options().withMinMessageCount(2).withReadTimeoutMillis(300),
        ),
        'read with minimum above maximum': await read(
            options().withMinMessageCount(2).withMaxMessageCount(1),
        ),
    };
};

const updateErrors = async (client) => {
    const toFile = plain('Memory').withPersistence(Persistence.File);
    const toMemory = plain('File').withPersistence(Persistence.Memory);
    const belowSegmentSize = plain('File').withMaxSize(1024).withStreamSegmentSize(2048);
    return {
        'update memory to file': await caught(client.updateMessageStream(toFile)),
        'update file to memory': await caught(client.updateMessageStream(toMemory)),
        'update below segment size': await caught(client.updateMessageStream(belowSegmentSize)),
    };
};

const plain = (name) => new sdk.MessageStreamDefinition()
    .withName(name)
    .withStrategyOnFull(StrategyOnFull.OverwriteOldestData);

const exportsOfOneName = () => new sdk.ExportDefinition()
    .withHttp([new sdk.HTTPConfig()
        .withIdentifier('same')
        .withUri('http://127.0.0.1:9/')
        .withDisabled(true)])
    .withKinesis([new sdk.KinesisConfig()
        .withIdentifier('same')
        .withKinesisStreamName('target')
        .withDisabled(true)]);

/* Connect once with each token of the command line; an empty one means none. */
const tokens = async () => {
    const results = {};
    for (const token of process.argv.slice(3)) {
        results[token] = await connectWith(token);
    }
    return results;
};

const connectWith = async (token) => {
    delete process.env.AWS_CONTAINER_AUTHORIZATION_TOKEN;
    if (token) {
        process.env.AWS_CONTAINER_AUTHORIZATION_TOKEN = token;
    }
    try {
        const client = await connect();
        const streams = await client.listStreams();
        client.close();
        return { streams };
    } catch (error) {
        return failure(error);
    }
};

/* Twenty appends at once on one connection, then twenty reads. */
const parallel = async () => {
    const client = await connect();
    await client.createMessageStream(plain('Parallel'));
    const each = [...Array(PARALLEL).keys()];
    const payloads = each.map((count) => `message of promise ${count}`);
    const numbers = await Promise.all(
        payloads.map((data) => client.appendMessage('Parallel', Buffer.from(data))),
    );
    const read = await Promise.all(each.map(async (number) => {
        const options = new ReadMessagesOptions().withDesiredStartSequenceNumber(number);
        return contents(await client.readMessages('Parallel', options));
    }));
    client.close();
    return { appended: each.map((count) => [numbers[count], payloads[count]]), read };
};

/* A read that waits for five messages while the same connection appends them. */
const waitingRead = async () => {
    const client = await connect();
    await client.createMessageStream(plain('Awaited'));
    const options = new ReadMessagesOptions()
        .withMinMessageCount(5)
        .withMaxMessageCount(5)
        .withReadTimeoutMillis(10000);
    const begin = performance.now();
    let done = false;
    let doneEarly = null;
    let readS = null;
    const reading = client.readMessages('Awaited', options).finally(() => {
        done = true;
        readS = (performance.now() - begin) / 1000;
    });
    const appendsS = [];
    for (let number = 0; number < 5; number += 1) {
        doneEarly = done;
        const appendBegin = performance.now();
        await client.appendMessage('Awaited', Buffer.from(`message ${number}`));
        appendsS.push((performance.now() - appendBegin) / 1000);
    }
    const messages = await reading;
    client.close();
    return {
        messages: contents(messages),
        read_s: readS,
        appends_s: appendsS,
        'read done before the fifth append': doneEarly,
    };
};

/* The same client object before, during and after two deaths of the server. */
const reconnect = async () => {
    const client = await connect();
    await client.createMessageStream(plain('Kept').withTimeToLiveMillis(3600000));
    await client.createMessageStream(plain('Deleted'));
    await client.createMessageStream(plain('Forgotten').withPersistence(Persistence.Memory));
    await client.deleteMessageStream('Deleted');
    const acknowledged = await appendSome(client, 'first life');
    let closed = once(sockets.at(-1), 'close');
    tell({ event: 'acknowledged' });
    await hear('killed');
    await closed;
    tell({ event: 'noticed', outage: await caughtWithoutServer(client) });
    await hear('restarted');
    const secondLife = { streams: await client.listStreams(), stored: await readAll(client) };
    acknowledged.push(...await appendSome(client, 'second life'));
    closed = once(sockets.at(-1), 'close');
    tell({ event: 'acknowledged' });
    await hear('killed');
    await closed;
    tell({ event: 'noticed' });
    await hear('restarted');
    const thirdLife = {
        stored: await readAll(client),
        kept: (await client.describeMessageStream('Kept')).asMap(),
    };
    client.close();
    return { acknowledged, 'second life': secondLife, 'third life': thirdLife };
};

const appendSome = async (client, text) => {
    const acknowledged = [];
    for (let count = 0; count < 5; count += 1) {
        const data = `${text} ${count}`;
        acknowledged.push([await client.appendMessage('Kept', Buffer.from(data)), data]);
    }
    return acknowledged;
};

const readAll = async (client) => contents(
    await client.readMessages('Kept', new ReadMessagesOptions().withMaxMessageCount(1000)),
);

const caughtWithoutServer = async (client) => {
    try {
        await client.appendMessage('Kept', Buffer.from('nobody listens'));
    } catch (error) {
        return failure(error);
    }
    return null;
};

const contents = (messages) => messages.map(
    (message) => [message.sequenceNumber, message.payload.toString('latin1')],
);

/* What a call was refused with; null if it was not. */
const caught = async (call) => {
    try {
        await call;
    } catch (error) {
        if (!(error instanceof StreamManagerException)) {
            throw error;
        }
        return failure(error);
    }
    return null;
};

const failure = (error) => {
    const kinds = error.code ? [error.code] : [];
    for (let kind = error.constructor; kind.name; kind = Object.getPrototypeOf(kind)) {
        kinds.push(kind.name);
    }
    return { kinds, status: error.status ? error.status.asMap() : null, text: error.message };
};

const tell = (values) => process.stdout.write(`${JSON.stringify(values)}\n`);

const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();

const hear = async (word) => {
    const { value } = await lines.next();
    assert.strictEqual(value, word);
};

const SCENARIOS = {
    operations, errors, tokens, parallel, waiting_read: waitingRead, reconnect,
};

/* Without exit(), the open standard input would keep the process alive. */
const main = async () => {
    tell({ event: 'result', ...await SCENARIOS[process.argv[2]]() });
    process.exit(0);
};

main().catch((error) => {
    console.error(error);
    process.exit(1);
});
