/** Everything once, in one program. It runs in Node, Bun and Deno. */
import { connect, StateStoreError } from "statestore";

const client = await connect(process.env.STATESTORE_URL ?? "mqtt://127.0.0.1:1883", { encoding: "utf8" });
const changes = await client.observe("tour/greeting");
await client.set("tour/greeting", "hello");
const change = await changes.next({ timeout: 10_000 });
console.log((await client.get("tour/greeting"))?.value, change?.is);

await client.withLock("tour/lock", async (guard) => {
  console.log(guard.isValid(), (await guard.set("tour/guarded", "value")).applied);
});

await Promise.all(Array.from({ length: 2000 }, (_, number) => client.set(`tour/many/${number}`, String(number))));
const keys: string[] = [];
for await (const key of client.scan("tour/many/*")) {
  keys.push(key);
}
const deleted = await client.delMany(keys);
console.log(keys.length, deleted.every(({ is }) => is === "deleted"));

try {
  await client.get("");
} catch (error) {
  console.log(error instanceof StateStoreError && error.code);
}
await client.close();
