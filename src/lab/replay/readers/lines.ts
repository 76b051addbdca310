/** The most characters of a line that are read; the rest is dropped, so a longer line counts as broken. */
const MAX_LINE_CHARACTERS = 1_048_576;

/** Octets for as many characters and a byte order mark: a UTF-16 code unit takes at most three in UTF-8. */
const MAX_LINE_BYTES = 3 * (MAX_LINE_CHARACTERS + 1);

const LINE_FEED = 0x0a;
const BYTE_ORDER_MARK = '\ufeff';

/** The lines of a text that arrives in chunks, a batch per chunk; without line endings, including empty lines. */
export async function* linesOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<readonly string[]> {
  let begun: Uint8Array = new Uint8Array(0);
  let isFirst = true;
  const decoded = (octets: Buffer): string => {
    const text = octets.toString(); // a streaming decoder takes several times as long
    const isMarked = isFirst && text.startsWith(BYTE_ORDER_MARK);
    isFirst = false;
    return isMarked ? text.slice(1) : text;
  };
  for await (const chunk of chunks) {
    const end = chunk.lastIndexOf(LINE_FEED); // an octet of this value is never part of another character
    if (end < 0) {
      if (begun.length < MAX_LINE_BYTES) begun = Buffer.concat([begun, chunk]).subarray(0, MAX_LINE_BYTES);
      continue;
    }
    const text = decoded(Buffer.concat([begun, chunk.subarray(0, end)]));
    yield text.split('\n').map(trimmed);
    begun = chunk.subarray(end + 1);
  }
  const last = decoded(Buffer.from(begun));
  if (last !== '') yield [trimmed(last)];
}

function trimmed(line: string): string {
  const read = line.length > MAX_LINE_CHARACTERS ? line.slice(0, MAX_LINE_CHARACTERS) : line;
  return read.endsWith('\r') ? read.slice(0, -1) : read;
}
