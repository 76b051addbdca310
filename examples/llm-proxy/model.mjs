// Simulates a language model that can only count, one number every few milliseconds. `count to 20`
import { createServer } from 'node:http';
import { json } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';

const PAUSE_MS = Number(process.env.PAUSE_MS ?? 50);
const PROMPT_TOKENS = 3;

const server = createServer(async (request, response) => {
  const body = await json(request).catch(() => undefined); // the client may have disconnected
  if (!body) return response.writeHead(400).end('expected JSON\n');
  const { messages, max_tokens: maxTokens = 500, stream_options: options } = body;
  const [, asked] = /^count to (\d+)$/.exec(messages.at(-1).content) ?? [];
  if (asked === undefined) return response.writeHead(500).end('it can only count\n');
  const count = Math.min(Number(asked), maxTokens);
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  for (let number = 1; number <= count && !response.destroyed; number++) {
    response.write(`data: ${JSON.stringify({ choices: [{ delta: { content: `${number} ` } }] })}\n\n`);
    await sleep(PAUSE_MS);
  }
  const usage = { prompt_tokens: PROMPT_TOKENS, completion_tokens: count, total_tokens: PROMPT_TOKENS + count };
  if (options?.include_usage) response.write(`data: ${JSON.stringify({ choices: [], usage })}\n\n`);
  response.end('data: [DONE]\n\n');
});
server.listen(Number(process.env.PORT ?? 9001), '127.0.0.1', () => console.log('model is ready'));
for (const signal of ['SIGTERM', 'SIGINT']) process.once(signal, () => process.exit());
