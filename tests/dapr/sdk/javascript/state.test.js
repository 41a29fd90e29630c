// Dapr's JavaScript SDK with the state store `store` of the daprd at DAPR_GRPC_PORT and DAPR_HTTP_PORT, over both.
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import {
  CommunicationProtocolEnum as Protocol,
  DaprClient,
  StateConcurrencyEnum as Concurrency,
  StateConsistencyEnum as Consistency,
} from '@dapr/dapr';

const STORE = 'store';
const silent = { error() {}, warn() {}, info() {}, verbose() {}, debug() {} };

// What each makes of an ETag that does not match.
const over = {
  http: { protocol: Protocol.HTTP, port: process.env.DAPR_HTTP_PORT, mismatch: /"status":409/ },
  grpc: { protocol: Protocol.GRPC, port: process.env.DAPR_GRPC_PORT, mismatch: /\[aborted\]/ },
};

for (const [name, { protocol, port, mismatch }] of Object.entries(over)) {
  describe(`state over ${name}`, () => {
    const dapr = new DaprClient({ daprHost: '127.0.0.1', daprPort: port, communicationProtocol: protocol, logger: { service: silent } });
    after(() => dapr.stop());
    const { state } = dapr;
    const firstWrite = { concurrency: Concurrency.CONCURRENCY_FIRST_WRITE };
    const lastWrite = { concurrency: Concurrency.CONCURRENCY_LAST_WRITE };

    // Over HTTP, the error of a save or a deletion is returned; over gRPC it is thrown.
    const done = async (call) => {
      const { error } = await call;
      if (error) throw error;
    };
    const save = (key, value, more) => done(state.save(STORE, [{ key, value, ...more }]));
    const remove = (key, options) => done(state.delete(STORE, key, options));
    const get = async (key) => (await state.get(STORE, key)) || undefined;
    // The SDK tells ETags only of many.
    const etag = async (key) => (await state.getBulk(STORE, [key]))[0].etag;
    const upsert = (key, value, etag) => ({ operation: 'upsert', request: { key, value, etag } });
    const own = (key) => `js-${name}-${key}`;

    test('first-write needs the ETag that was read', async () => {
      const key = own('first');
      await save(key, 'one', { options: firstWrite });
      const read = await etag(key);
      await save(key, 'two', { etag: read, options: firstWrite });
      await assert.rejects(save(key, 'three', { etag: read, options: firstWrite }), mismatch);
      await assert.rejects(save(key, 'four', { options: firstWrite }), mismatch);
      await assert.rejects(remove(key, { etag: read }), mismatch);
      assert.equal(await get(key), 'two');
      await remove(key, { etag: await etag(key), ...firstWrite });
      assert.equal(await get(key), undefined);
    });

    test('last-write does not look at an ETag', async () => {
      const key = own('last');
      await save(key, 'one');
      const read = await etag(key);
      await save(key, 'two');
      await save(key, 'three', { etag: read, options: lastWrite });
      assert.equal(await get(key), 'three');
      await remove(key, { etag: read, ...lastWrite });
      assert.equal(await get(key), undefined);
    });

    test('a write of either consistency is read at once', async () => {
      const key = own('consistency');
      for (const consistency of [Consistency.CONSISTENCY_STRONG, Consistency.CONSISTENCY_EVENTUAL]) {
        await save(key, `value ${consistency}`, { options: { consistency } });
        assert.equal(await state.get(STORE, key, { consistency }), `value ${consistency}`);
      }
    });

    test('of a hundred first-writes one wins', async () => {
      const key = own('race');
      const write = (_, number) => save(key, `value ${number}`, { options: firstWrite });
      const outcomes = await Promise.allSettled(Array.from({ length: 100 }, write));
      const winners = outcomes.flatMap(({ status }, number) => (status === 'fulfilled' ? [number] : []));
      assert.equal(winners.length, 1);
      for (const { reason } of outcomes) if (reason) assert.match(String(reason), mismatch);
      assert.equal(await get(key), `value ${winners[0]}`);
    });

    test('a transaction is everything or nothing', async () => {
      const [fresh, guard, gone] = ['new', 'guard', 'gone'].map(own);
      await save(guard, 'one');
      await save(gone, 'one');
      const read = await etag(guard);
      const remove = { operation: 'delete', request: { key: gone } };
      await state.transaction(STORE, [upsert(fresh, 'two'), upsert(guard, 'two', read), remove]);
      assert.deepEqual([await get(fresh), await get(guard), await get(gone)], ['two', 'two', undefined]);
      const stale = state.transaction(STORE, [upsert(fresh, 'three'), upsert(guard, 'three', read)]);
      await assert.rejects(stale, /operation 2 of 2: the ETag/);
      assert.deepEqual([await get(fresh), await get(guard)], ['two', 'two']);
    });

    test('many at once', async () => {
      const keys = ['1', '2', '3'].map(own);
      await done(state.save(STORE, [{ key: keys[0], value: 'one' }, { key: keys[1], value: 'two' }]));
      const items = await state.getBulk(STORE, keys, { parallelism: 2 });
      const values = Object.fromEntries(items.map(({ key, data }) => [key, data || undefined]));
      assert.deepEqual(values, { [keys[0]]: 'one', [keys[1]]: 'two', [keys[2]]: undefined });
    });

    test('a value ends when it is to', async () => {
      const key = own('short');
      await save(key, 'one', { metadata: { ttlInSeconds: '100' } });
      // The SDK does not hand out what daprd tells of the end.
      const { headers } = await fetch(`http://127.0.0.1:${process.env.DAPR_HTTP_PORT}/v1.0/state/${STORE}/${key}`);
      const remaining = Date.parse(headers.get('metadata.ttlexpiretime')) - Date.now();
      assert.ok(remaining > 0 && remaining <= 101_000, `${remaining} ms`);
    });
  });
}
