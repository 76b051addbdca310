import { Scope } from '../../src/operate/admin/scope.ts';

/** That of a token for all domains. */
export const wholeScope = new Scope({ name: 'ops' }, () => undefined);
