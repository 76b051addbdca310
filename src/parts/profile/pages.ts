import { findToken } from '../../operate/admin/access.ts';
import type { AdminOptions } from '../../operate/admin/options.ts';
import type { OperatorPart } from '../../serve/control/part.ts';
import type { ProfileQuestion } from './open.ts';
import { type ProfileKind, profileRoutes } from './profile.ts';

/** The pages with profiles of a decider, for the role `operate`. */
export function profilePages({ access, askOne }: AdminOptions): OperatorPart {
  const allowed = access.tokens.filter(({ role, domains }) => role === 'operate' && !domains);
  if (allowed.length === 0) return {};
  const ask = (question: ProfileQuestion, moreMs = 0) =>
    askOne({ kind: 'part', part: 'profile', question, isChange: true }, moreMs); // no other process is asked as well
  const take = async (what: ProfileKind, seconds: number, end: AbortSignal) => {
    end.addEventListener('abort', () => void ask({ what: 'end' }));
    return (await ask({ what, seconds }, seconds * 1_000)) as object | undefined; // by the same capability
  };
  return { pages: profileRoutes(({ headers }) => findToken(headers.authorization, allowed) !== undefined, take) };
}
