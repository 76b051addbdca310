import { createInterface } from 'node:readline';
import { createClient } from 'weir-client';
import { weirFetch } from 'weir-client/fetch';

const [target = '', maxWaitMs = ''] = process.argv.slice(2);

const client = createClient({ target, timeoutMs: 60_000 });
await client.ready({ timeoutMs: 60_000 });
const fetchPausing = weirFetch({ client, maxWaitMs: Number(maxWaitMs) });

/** Reads a URL from each line, and prints the result of the request. */
const lines = createInterface({ input: process.stdin });
lines.on('line', async (url) => {
  const outcome = await fetchPausing(url).then(
    ({ status }) => status,
    ({ name }) => name,
  );
  process.stdout.write(`${url}: ${outcome}, not shared: ${fetchPausing.stats().notShared}\n`);
});
lines.on('close', () => client.close());
process.stdout.write('ready\n');
