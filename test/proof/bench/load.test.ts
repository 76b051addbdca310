import '../../helpers/realm.ts';
import { run } from '../../../proof/bench/load.ts';
import { startWeir } from '../../helpers/weir.ts';

test('npm run proof -- load sends calls with ghz to a service on this machine, which answers all of them', async () => {
  const weir = await startWeir();
  const printed = jest.spyOn(process.stdout, 'write').mockReturnValue(true);
  try {
    await run(['--target', `127.0.0.1:${weir.grpcPort}`, '--total', '1000']);
    expect(printed).toHaveBeenCalledWith(expect.stringMatching(/^ *\[OK\] +1000 responses/m));
    await expect(run(['--target', 'example.com:8081'])).rejects.toThrow(/^--target must be a port of localhost/);
  } finally {
    printed.mockRestore();
    await weir.stop();
  }
});
