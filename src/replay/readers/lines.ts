/** Characters of a line that are read; the rest of a longer one is dropped, so that the line counts as broken. */
const MAX_LINE_CHARACTERS = 1_048_576;

/** The lines of a text that arrives in pieces, those of a piece at a time; without their ends, empty ones included. */
export async function* linesOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<readonly string[]> {
  const decoder = new TextDecoder(); // drops a byte order mark
  let begun = '';
  for await (const chunk of chunks) {
    const text = decoder.decode(chunk, { stream: true });
    const lines = text.split('\n');
    lines[0] = joined(begun, lines[0] ?? '');
    begun = lines.pop() ?? '';
    if (begun.length > MAX_LINE_CHARACTERS) begun = begun.slice(0, MAX_LINE_CHARACTERS);
    if (lines.length > 0) yield lines.map(withoutReturn);
  }
  const last = begun + decoder.decode();
  if (last !== '') yield [withoutReturn(last)];
}

const joined = (begun: string, more: string): string =>
  begun.length + more.length <= MAX_LINE_CHARACTERS ? begun + more : (begun + more).slice(0, MAX_LINE_CHARACTERS);

const withoutReturn = (line: string): string => (line.endsWith('\r') ? line.slice(0, -1) : line);
