import { fields, text } from '../../base/shape.ts';
import { crossSiteReason } from '../../edge/http/cross-site.ts';
import { type AccessOptions, findToken } from './access.ts';
import { type ApiOperation, operation } from './api.ts';
import type { AdminOptions } from './options.ts';
import { ApiProblem } from './problem.ts';

/** Operations to sign in and out in a browser, so that it need not store a token. */
export function sessionOperations(options: AdminOptions): readonly ApiOperation[] {
  return [
    operation('GET /api/v1/session', {
      summary: 'what this client may do',
      need: 'open',
      domains: 'any',
      answers:
        '`role` is read or operate; absent: the client may not see values. `domains` if its token is only for some. `csrf` is the csrf token of the session.',
      answer: ({ client, request }) => {
        const { tokens, sessions } = options.access;
        const csrf = sessions.of(request)?.csrf;
        return {
          name: client.name,
          ...(client.seesValues && { role: client.role }),
          ...(client.domains && { domains: client.domains }),
          needsToken: !tokens.every(({ isLocal }) => isLocal),
          ...describeService(options),
          ...(csrf !== undefined && { csrf }),
        };
      },
    }),
    operation('POST /api/v1/session', {
      summary: 'signs in with a token: sets a session cookie that is valid for 12 hours',
      need: 'open',
      domains: 'any',
      body: fields({ token: { ...text, minLength: 1, maxLength: 10_000 } }),
      answers:
        'Name, role, `domains` if the token is only for some, and `csrf`, which changes need in the header x-weir-csrf.',
      answer: ({ body, request, headers }) => {
        refuseOtherSites(request);
        const { tokens, sessions } = options.access;
        const token = knownToken(body.token, tokens);
        const { session, setCookie } = sessions.open(token, request);
        headers.set('set-cookie', setCookie);
        const { name, role, domains } = token;
        return { name, role, csrf: session.csrf, ...(domains && { domains }) };
      },
    }),
    operation('DELETE /api/v1/session', {
      summary: 'signs out',
      need: 'open',
      domains: 'any',
      answers: 'Nothing.',
      answer: ({ request, headers }) => {
        refuseOtherSites(request);
        headers.set('set-cookie', options.access.sessions.close(request));
        return {};
      },
    }),
  ];
}

/** What the console must know of the service to show its pages. */
function describeService({ version, hash, settings }: AdminOptions) {
  const { rlqs, sites, agent, prometheus, usage, grpc } = settings;
  const { port } = grpc.address;
  return {
    version,
    hashKeys: hash !== undefined,
    ...(port !== undefined && { grpcPort: port }),
    ...(rlqs.isOn && { hasQuotas: true }),
    ...(sites && { hasSites: true }),
    ...(agent.refusals > 0 && { keepsRefusals: true }),
    ...(agent.topKeysBytes > 0 && { countsClients: true }),
    ...(prometheus && { hasPrometheus: true }),
    ...(usage && { keepsUsage: true }),
  };
}

/** @throws ApiProblem  403 */
function knownToken(written: string, tokens: AccessOptions['tokens']) {
  const token = findToken(`Bearer ${written}`, tokens);
  if (!token) throw new ApiProblem(403, 'the token is not one of ADMIN_TOKEN, nor that of this start');
  return token;
}

/** @throws ApiProblem  403 */
function refuseOtherSites(request: Parameters<typeof crossSiteReason>[0]): void {
  const reason = crossSiteReason(request);
  if (reason !== undefined) throw new ApiProblem(403, reason);
}
