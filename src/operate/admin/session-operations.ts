import { fields, text } from '../../base/shape.ts';
import { crossSiteReason } from '../../edge/http/cross-site.ts';
import type { SessionInfo } from '../answers/service.ts';
import { type AccessOptions, findToken } from './access.ts';
import { type ApiOperation, operation } from './api.ts';
import { ApiProblem } from './problem.ts';

type Part = 'hasQuotas' | 'hasSites' | 'keepsRefusals' | 'countsClients' | 'hasPrometheus' | 'keepsUsage';

/** Facts about the service that the console shows, and whether it has each of these parts. */
type SessionFacts = Pick<SessionInfo, 'hashKeys' | 'version'> &
  Readonly<Record<Part, boolean>> & { readonly grpcPort: number | undefined };

/** Operations to sign in and out in a browser, so that it need not store a token. */
export function sessionOperations(
  { tokens, sessions }: AccessOptions,
  { hashKeys, version, grpcPort, ...parts }: SessionFacts,
): readonly ApiOperation[] {
  return [
    operation('GET /api/v1/session', {
      summary: 'what this client may do',
      need: 'open',
      answers:
        '`role` is read or operate; absent: the client may not see values. `csrf` is the csrf token of the session.',
      answer: ({ client, request }) => ({
        version,
        name: client.name,
        ...(client.seesValues && { role: client.role }),
        needsToken: tokens.length > 0,
        hashKeys,
        ...(grpcPort !== undefined && { grpcPort }),
        ...onlyTrue(parts),
        ...pickCsrf(sessions.of(request)),
      }),
    }),
    operation('POST /api/v1/session', {
      summary: 'signs in with a token: sets a session cookie that is valid for 12 hours',
      need: 'open',
      body: fields({ token: { ...text, minLength: 1, maxLength: 10_000 } }),
      answers: 'Name, role, and `csrf`, which changes need in the header x-weir-csrf.',
      answer: ({ body, request, headers }) => {
        refuseOtherSites(request);
        const token = knownToken(body.token, tokens);
        const { session, setCookie } = sessions.open(token, request);
        headers.set('set-cookie', setCookie);
        return { name: token.name, role: token.role, csrf: session.csrf };
      },
    }),
    operation('DELETE /api/v1/session', {
      summary: 'signs out',
      need: 'open',
      answers: 'Nothing.',
      answer: ({ request, headers }) => {
        refuseOtherSites(request);
        headers.set('set-cookie', sessions.close(request));
        return {};
      },
    }),
  ];
}

const onlyTrue = (parts: Readonly<Record<string, boolean>>): Readonly<Record<string, true>> =>
  Object.fromEntries(Object.entries(parts).flatMap(([name, isOn]) => (isOn ? [[name, true as const]] : [])));

/** @throws ApiProblem  403 */
function knownToken(written: string, tokens: AccessOptions['tokens']) {
  if (tokens.length === 0) throw new ApiProblem(403, 'ADMIN_TOKEN is not set');
  const token = findToken(`Bearer ${written}`, tokens);
  if (!token) throw new ApiProblem(403, 'the token is not one of ADMIN_TOKEN');
  return token;
}

const pickCsrf = (session: { readonly csrf: string } | undefined) => session && { csrf: session.csrf };

/** @throws ApiProblem  403 */
function refuseOtherSites(request: Parameters<typeof crossSiteReason>[0]): void {
  const reason = crossSiteReason(request);
  if (reason !== undefined) throw new ApiProblem(403, reason);
}
