// Estimates the cost of a request, and measures that of its streamed answer.

const CHARACTERS_PER_TOKEN = 4;

/** The approximate maximum cost of a request: its messages, and the longest answer that it allows. */
export function expectedTokens({ messages = [], max_tokens: maxTokens = 500 }) {
  const characters = messages.reduce((sum, { content = '' }) => sum + content.length, 0);
  return Math.ceil(characters / CHARACTERS_PER_TOKEN) + maxTokens;
}

/** Counts the tokens of an answer as it is streamed: the usage that the model sends at the end, or else its events. */
export function createMeter() {
  const decoder = new TextDecoder();
  let rest = '';
  let events = 0;
  let total;
  return {
    read(chunk) {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) {
        if (!line.startsWith('data: {')) continue;
        const { usage } = JSON.parse(line.slice('data: '.length));
        if (usage) total = usage.total_tokens;
        else events++;
      }
    },
    /** An interrupted answer has no usage. */
    used: () => total ?? events,
  };
}
