import { createServer } from 'node:http';
import type { Socket } from 'node:net';
import { closeAll, closeLater, listen, startService } from '../client/service.ts';
import { freePort, type Running } from '../helpers/process.ts';
import { type Env, openExample } from './example.ts';

const FAST = '1';
/** A pause so long that an answer does not end during the test. */
const SLOW = '1000';

afterEach(closeAll);

interface Proxy {
  readonly proxy: Running;
  chat(prompt: string, options?: { readonly maxTokens?: number; readonly signal?: AbortSignal }): Promise<Response>;
}

/** Starts the model of the example. @returns its URL */
async function startModel(pauseMs: string): Promise<string> {
  const port = await freePort();
  await run('model.mjs', { PORT: String(port), PAUSE_MS: pauseMs });
  return `http://127.0.0.1:${port}`;
}

/** Starts the proxy of the example, whose limit does not refill during the test. */
async function startProxy(model: string): Promise<Proxy> {
  const { rules } = await openExample('llm-proxy');
  const service = await startService(rules.replace('unit: minute', 'unit: day'));
  const port = await freePort();
  return {
    proxy: await run('proxy.mjs', { PORT: String(port), WEIR: service.grpc, UPSTREAM: model }),
    chat: (content, { maxTokens = 400, signal } = {}) =>
      fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'x-tenant': 'acme' },
        body: JSON.stringify({ max_tokens: maxTokens, messages: [{ role: 'user', content }] }),
        ...(signal && { signal }),
      }),
  };
}

async function run(program: string, env: Env): Promise<Running> {
  const example = await openExample('llm-proxy');
  const running = await example.run(program, { env, ready: `${program.replace('.mjs', '')} is ready` });
  closeLater(() => running.stop());
  return running;
}

test('the proxy of the example charges a request for the tokens of its answer', async () => {
  const { proxy, chat } = await startProxy(await startModel(FAST));
  for (let at = 0; at < 5; at++) {
    const answer = await chat('count to 20'); // five reservations would be more than the limit
    const text = await answer.text();
    if (answer.status !== 200) throw new Error(`${answer.status} ${text}, and the proxy printed ${proxy.output()}`);
    expect(text).toContain('"content":"20 "');
  }
  await proxy.waitFor((output) => output.split('acme: reserved 403, charged 23').length === 6);
});

test('the proxy of the example refuses requests that could exceed the limit, until a client goes away', async () => {
  const { proxy, chat } = await startProxy(await startModel(SLOW));
  const controller = new AbortController();
  const streams = await Promise.all([1, 2].map(() => chat('count to 400', { signal: controller.signal })));
  for (const { status, body } of streams) {
    expect(status).toBe(200);
    await body?.getReader().read();
  }
  const refused = await chat('count to 1');
  expect(refused.status).toBe(429);
  expect(refused.headers.get('retry-after')).toMatch(/^\d+$/);
  controller.abort();
  await proxy.waitFor((output) => output.split(/acme: reserved 403, charged \d+\n/).length === 3);
  expect((await chat('count to 1')).status).toBe(200);
  expect((await chat('count to 1', { maxTokens: 2_000 })).status).toBe(413);
});

test('the proxy of the example charges nothing for an answer that is an error', async () => {
  const { proxy, chat } = await startProxy(await startModel(FAST));
  for (let at = 0; at < 4; at++) expect((await chat('sing')).status).toBe(500);
  await proxy.waitFor((output) => output.split(', charged 0').length === 5);
});

/** A model that closes a connection when a second request arrives, like servers after their idle timeout. */
async function startClosingModel(): Promise<string> {
  const used = new WeakSet<Socket>();
  const server = createServer(({ socket }, response) => {
    if (used.has(socket)) return void socket.destroy();
    used.add(socket);
    response.writeHead(200, { 'content-type': 'text/event-stream' }).end('data: [DONE]\n\n');
  });
  return `http://127.0.0.1:${await listen(server)}`;
}

test('the proxy of the example sends no request on a connection that the model may be closing', async () => {
  const { chat } = await startProxy(await startClosingModel());
  for (let at = 0; at < 4; at++) {
    const answer = await chat('count to 1');
    expect(answer.status).toBe(200);
    await answer.text();
  }
});
