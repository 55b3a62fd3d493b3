// An editor made of the protocol's own TypeScript library: opens a session with a tool server of
// its own, says one thing, allows what is asked, and prints everything it was shown.
//
// node acp_host.mjs SDK CWD SERVER_COMMAND_JSON TEXT -- AGENT...

import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";

const [sdk, cwd, server, text, , ...agent] = process.argv.slice(2);
const acp = await import(sdk);
const child = spawn(agent[0], agent.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
const shown = [];
const asked = [];
const host = acp
  .client({ name: "host" })
  .onRequest(acp.methods.client.session.requestPermission, ({ params }) => {
    asked.push(params);
    const chosen = params.options.find((option) => option.kind === "allow_once");
    return { outcome: { outcome: "selected", optionId: chosen.optionId } };
  })
  .onNotification(acp.methods.client.session.update, ({ params }) => {
    shown.push(params.update);
  });
const ended = await host.connectWith(stream, async (ctx) => {
  const begun = await ctx.request(acp.methods.agent.initialize, {
    protocolVersion: acp.PROTOCOL_VERSION,
    clientCapabilities: {},
  });
  const [command, ...args] = JSON.parse(server);
  const session = await ctx.request(acp.methods.agent.session.new, {
    cwd,
    mcpServers: [{ name: "weather desk", command, args, env: [] }],
  });
  const prompt = { sessionId: session.sessionId, prompt: [{ type: "text", text }] };
  const answer = await ctx.request(acp.methods.agent.session.prompt, prompt);
  return { begun, session, answer };
});
console.log(JSON.stringify({ ...ended, shown, asked }));
child.kill();
