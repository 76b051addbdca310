import { join } from 'node:path';
import { expectToWork, folder, run, service } from './holds-example.ts';

test('the program in Go runs with a slot and pays for its tokens, by a client generated from the OpenAPI document', async () => {
  await run('go', ['generate']);
  await run('go', ['build', '-o', 'job', '.']);
  await expectToWork('go', (job) => run(join(folder, 'job'), [job, service.http]));
});
