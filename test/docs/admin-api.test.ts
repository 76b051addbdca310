import { readFileSync } from 'node:fs';
import { startWeir } from '../helpers/weir.ts';

test('the reference of the admin API has every operation of a running service', async () => {
  const weir = await startWeir({ USE_STATSD: 'false' });
  try {
    const response = await fetch(`http://127.0.0.1:${weir.debugPort}/api/v1/openapi.json`);
    const { paths } = (await response.json()) as { paths: Readonly<Record<string, object>> };
    const served = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods).flatMap((method) => (method === 'servers' ? [] : [`## ${method.toUpperCase()} ${path}`])),
    );
    const listed: readonly string[] = readFileSync('docs/admin-api.md', 'utf8').match(/^## [A-Z]+ \/.*/gm) ?? [];
    expect(served.filter((heading) => !listed.includes(heading))).toEqual([]);
  } finally {
    await weir.stop();
  }
});
