import { delimiter, join } from 'node:path';
import { pythonPackages } from '../helpers/client-languages.ts';
import { EXAMPLE, expectToWork, run, service } from './holds-example.ts';

test('the program in Python runs with a slot and pays for its tokens, by a client generated from the OpenAPI document', async () => {
  const packages = await pythonPackages(join(EXAMPLE, 'requirements.txt'));
  const env = { PYTHONPATH: packages, PATH: [join(packages, 'bin'), process.env.PATH].join(delimiter) };
  const args = ['--path', 'weir.json', '--meta', 'none', '--output-path', 'weir', '--overwrite'];
  await run('python3', ['-m', 'openapi_python_client', 'generate', ...args], env);
  await expectToWork('python', (job) => run('python3', ['job.py', job, service.http], env));
});
