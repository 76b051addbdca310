import { execFileSync } from 'node:child_process';
import { newestNode } from '../helpers/tools.ts';
import { startWeir, type Weir } from '../helpers/weir.ts';

describe('on the newest Node with long-term support', () => {
  let node: string;
  let weir: Weir;
  beforeAll(async () => {
    node = await newestNode();
    weir = await startWeir({}, { node });
  });
  afterAll(() => weir.stop());

  test('the service answers over gRPC and HTTP, and shows its metrics', async () => {
    const target = ['--grpc', `127.0.0.1:${weir.grpcPort}`];
    const printed = execFileSync(node, ['dist/main.js', 'ask', 'demo', 'user=ann', ...target], { encoding: 'utf8' });
    expect(printed).toContain('OK');
    const body = JSON.stringify({ domain: 'demo', descriptors: [{ entries: [{ key: 'user', value: 'ann' }] }] });
    const answer = await fetch(`http://127.0.0.1:${weir.httpPort}/json`, { method: 'POST', body });
    expect(await answer.json()).toMatchObject({ overallCode: 'OK' });
    const metrics = await fetch(`http://127.0.0.1:${weir.debugPort}/metrics`);
    expect(await metrics.text()).toContain('weir_hits_total');
  });
});
