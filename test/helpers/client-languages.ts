import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CACHE, GRPCIO_VERSION, install, isThere, runInstaller } from './tools.ts';

const XDS_PROTOS_VERSION = '1.85.0';

/** Folder with the Python packages `grpc` and `envoy`, for PYTHONPATH. */
export async function xdsProtos(): Promise<string> {
  const folder = join(CACHE, `xds-protos-${XDS_PROTOS_VERSION}`);
  if (await isThere(folder)) return folder;
  await install(folder, async (into) => {
    const packages = [`xds-protos==${XDS_PROTOS_VERSION}`, `grpcio==${GRPCIO_VERSION}`];
    const pip = ['-m', 'pip', 'install', '--only-binary', ':all:', '--target', into, ...packages];
    await runInstaller('Python packages could not be installed, which takes Python 3 with pip', ['python3', ...pip]);
  });
  return folder;
}

/** Folder with the Python packages that a file lists, for PYTHONPATH, and their programs in `bin`. */
export async function pythonPackages(requirements: string): Promise<string> {
  const list = await readFile(requirements, 'utf8');
  const folder = join(CACHE, `python-${createHash('sha256').update(list).digest('hex').slice(0, 12)}`);
  if (await isThere(folder)) return folder;
  await install(folder, async (into) => {
    const pip = ['-m', 'pip', 'install', '--only-binary', ':all:', '--target', into, '--requirement', requirements];
    await runInstaller('Python packages could not be installed, which takes Python 3 with pip', ['python3', ...pip]);
  });
  return folder;
}

/** Whether this machine can compile and run Java and has Maven to fetch dependencies. */
export const hasJava = (): boolean =>
  ['javac', 'java', 'mvn'].every(
    (program) => spawnSync(program, ['-version'], { stdio: 'ignore' }).error === undefined,
  );

/** The class path of these dependencies, written as in a pom.xml, and of their own dependencies. */
export async function mavenClasspath(dependencies: string): Promise<string> {
  const pom = `<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>weir.test</groupId><artifactId>client</artifactId><version>1</version>
<dependencies>${dependencies}</dependencies>
</project>
`;
  const folder = join(CACHE, `maven-${createHash('sha256').update(pom).digest('hex').slice(0, 12)}`);
  if (!(await isThere(folder)))
    await install(folder, async (into) => {
      await mkdir(into);
      await writeFile(join(into, 'pom.xml'), pom);
      const goal = 'org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath';
      const options = ['-q', '-B', goal, '-Dmdep.outputFile=classpath', '-Dmdep.includeScope=runtime'];
      await runInstaller('Java packages could not be downloaded, which takes Maven', ['mvn', ...options], into);
    });
  return (await readFile(join(folder, 'classpath'), 'utf8')).trim();
}
