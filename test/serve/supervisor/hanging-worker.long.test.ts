import '../../helpers/realm.ts';
import { clients, OK, page, pidOf, service, workersOf } from './workers.ts';

test('a worker that hangs is killed and replaced, while another one answers', async () => {
  const weir = await service({ WORKERS: '2' });
  const hanging = pidOf(weir, 1);
  process.kill(hanging, 'SIGSTOP');
  await weir.waitFor(`worker 1 (process ${hanging}) has not answered for 30 s and is killed`);
  await weir.waitFor(`worker 1 (process ${hanging}) exited (SIGKILL); restarting in 0 ms`);
  await weir.waitFor(() => workersOf(weir).has(3));
  for (const one of clients(weir, 4)) expect((await one.ask()).overall_code).toBe(OK);
  expect(await page(weir.debugPort, '/metrics')).toContain('weir_worker_restarts_total 1\n');
  expect(weir.output()).not.toMatch(/worker 2 .*(killed|exited)/);
}, 120_000);
