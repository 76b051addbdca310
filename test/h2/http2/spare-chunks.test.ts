import { spareChunkCount } from '../../../src/h2/http2/output.ts';
import { openRaw } from '../../helpers/h2-client.ts';
import { startH2 } from '../../helpers/h2-server.ts';
import { until } from '../../helpers/until.ts';

test('free output buffers are kept while there are open connections', async () => {
  const server = await startH2();
  const clients = await Promise.all(Array.from({ length: 50 }, () => openRaw(server.port)));
  await Promise.all(clients.map((client) => client.settled()));
  expect(spareChunkCount()).toBeGreaterThan(0);
  for (const client of clients) client.close();
  await until('none is kept', () => spareChunkCount() === 0);
  await server.close(0);
});
