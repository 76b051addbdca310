import { type CertificateFiles, type Certificates, openCertificates } from '../../h2/listen/certificates.ts';
import type { ProcessContext } from './process-context.ts';
import { start } from './start-up.ts';

/**
 * @param variable  a setting, for the error message
 * @throws CannotStart if the files cannot be used
 */
export const openTls = (
  variable: string,
  files: CertificateFiles,
  { clock, log }: ProcessContext,
): Promise<Certificates> =>
  start(variable, 'cannot use TLS', () => openCertificates(files, clock, (problem) => log.error(problem)));
