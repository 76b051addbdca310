import type { IncomingMessage, ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';

/** Answers of language models that report their usage, as JSON and as the events of a stream. */
const answers = {
  'openai json': (input: number, output: number) => [
    {
      object: 'chat.completion',
      choices: [],
      usage: { prompt_tokens: input, completion_tokens: output, total_tokens: input + output },
    },
  ],
  'openai stream': (input: number, output: number) => [
    { object: 'chat.completion.chunk', choices: [{ delta: { content: 'word' } }], usage: null },
    {
      object: 'chat.completion.chunk',
      choices: [],
      usage: { prompt_tokens: input, completion_tokens: output, total_tokens: input + output },
    },
  ],
  'anthropic json': (input: number, output: number) => [
    { type: 'message', role: 'assistant', usage: { input_tokens: input, output_tokens: output } },
  ],
  'anthropic stream': (input: number, output: number) => [
    { type: 'message_start', message: { type: 'message', usage: { input_tokens: input, output_tokens: 1 } } },
    { type: 'content_block_delta', delta: { type: 'text_delta', text: 'word' } },
    { type: 'message_delta', delta: {}, usage: { output_tokens: output } },
    { type: 'message_stop' },
  ],
  'gemini json': (input: number, output: number) => [
    {
      candidates: [{ content: { parts: [{ text: 'word' }] } }],
      usageMetadata: { promptTokenCount: input, candidatesTokenCount: output, totalTokenCount: input + output },
    },
  ],
  'gemini stream': (input: number, output: number) =>
    [1, output].map((count) => ({
      candidates: [{ content: { parts: [{ text: 'word' }] } }],
      usageMetadata: { promptTokenCount: input, candidatesTokenCount: count, totalTokenCount: input + count },
    })),
} as const;

export type Dialect = keyof typeof answers;
export const dialects = Object.keys(answers) as readonly Dialect[]; // exactly its keys
export const isDialect = (what: unknown): what is Dialect => Object.hasOwn(answers, String(what));

/** The body of a request that asks for at most so many tokens. */
export const bodyFor = (dialect: Dialect, maxTokens: number): string =>
  JSON.stringify(
    dialect.startsWith('gemini')
      ? { contents: [], generationConfig: { maxOutputTokens: maxTokens } }
      : { model: 'm', messages: [{ role: 'user', content: 'hello' }], max_tokens: maxTokens },
  );

/** The path of a request in this dialect. */
export function pathOf(dialect: Dialect): string {
  if (dialect.startsWith('openai')) return '/v1/chat/completions';
  return dialect.startsWith('anthropic') ? '/v1/messages' : '/v1beta/models/m:generateContent';
}

/** Tokens of the input of each answer. */
export const INPUT_TOKENS = 20;

interface Answering {
  /** All tokens, those of the input included. */
  readonly tokens: number;
  /** Time between two events, and before the first one. */
  readonly pauseMs?: number;
  readonly isCompressed?: boolean;
}

/** Answers with the usage in this dialect. */
export function answerIn(dialect: Dialect, answer: ServerResponse, how: Answering): void {
  const { tokens, pauseMs = 0, isCompressed = false } = how;
  const isStream = dialect.endsWith('stream');
  const events = answers[dialect](INPUT_TOKENS, tokens - INPUT_TOKENS).map((event) => JSON.stringify(event));
  const parts = isStream ? events.map((event) => `data: ${event}\n\n`) : events;
  answer.writeHead(200, {
    'content-type': isStream ? 'text/event-stream' : 'application/json; charset=utf-8',
    ...(isCompressed && { 'content-encoding': 'gzip' }),
  });
  if (isCompressed) return void answer.end(gzipSync(parts.join('')));
  const next = (at: number): void => {
    const part = parts[at];
    if (part === undefined) return void answer.end();
    answer.write(part);
    if (pauseMs === 0) next(at + 1);
    else setTimeout(next, pauseMs, at + 1);
  };
  if (pauseMs === 0) next(0);
  else setTimeout(next, pauseMs, 0);
}

/** What a request of a test asks the model for, by the headers `x-what`, `x-tokens` and `x-pause`. */
export function answerAsAsked({ headers }: IncomingMessage, answer: ServerResponse): void {
  const { 'x-what': what, 'x-tokens': tokens = '220', 'x-pause': pause = '0' } = headers;
  if (isDialect(what)) answerIn(what, answer, { tokens: Number(tokens), pauseMs: Number(pause) });
  else if (what === 'compressed') answerIn('openai json', answer, { tokens: Number(tokens), isCompressed: true });
  else if (what === 'unknown') answer.writeHead(200, { 'content-type': 'application/json' }).end('{"text": "word"}');
  else if (what === 'fail') answer.writeHead(503).end('{"error": "overloaded"}');
  else answer.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: {"choices": []}\n\n'); // hangs
}
