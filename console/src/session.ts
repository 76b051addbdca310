import { computed, signal } from '@preact/signals';
import type { SessionInfo } from '../../src/operate/answers/service.ts';

/** What this browser may do. */
export const session = signal<SessionInfo | undefined>(undefined);

export const seesValues = computed(() => session.value?.role !== undefined);
/** Why no change can be made now; undefined: changes can be made. */
export const obstacle = signal<string | undefined>(undefined);
export const mayOperate = computed(() => session.value?.role === 'operate' && obstacle.value === undefined);

/** Why changes are not possible; undefined: they are. */
export const noChangesReason = computed(() => {
  const { needsToken = false, role } = session.value ?? {};
  if (role === 'operate') return obstacle.value;
  if (!needsToken) return 'Changes are off. Set ADMIN_TOKEN and sign in to make them.';
  return role === 'read'
    ? 'Your token may only read. Changes require a token with the role operate.'
    : 'Sign in to make changes.';
});

const PATH = '../api/v1/session';

export async function loadSession(): Promise<void> {
  const response = await fetch(PATH).catch(() => undefined);
  if (response?.ok) session.value = (await response.json()) as SessionInfo;
}

/** @returns why it failed; undefined: it succeeded */
export async function signIn(token: string): Promise<string | undefined> {
  const response = await fetch(PATH, { method: 'POST', body: JSON.stringify({ token }) }).catch(() => undefined);
  if (!response) return 'The service cannot be reached.';
  if (!response.ok)
    return ((await response.json().catch(() => ({}))) as { detail?: string }).detail ?? response.statusText;
  await loadSession();
  return undefined;
}

export async function signOut(): Promise<void> {
  await fetch(PATH, { method: 'DELETE' }).catch(() => undefined);
  await loadSession();
}
