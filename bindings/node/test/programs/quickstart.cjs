/** The program of the README, as a CommonJS script. */
const { connect } = require("statestore");

async function main() {
  const client = await connect(process.env.STATESTORE_URL ?? "mqtt://127.0.0.1:1883");
  const changes = await client.observe("greeting");
  await client.set("greeting", "hello");
  console.log((await client.get("greeting")).value.toString());
  console.log(await changes.next());
  await client.close();
}

main();
