import { setTimeout as sleep } from 'node:timers/promises';
import { every } from '../../base/clock.ts';
import { shareRuns } from '../../base/later.ts';
import { counted } from '../../base/texts.ts';
import { rfc3339 } from '../../base/times.ts';
import { type PackedDomain, unpack } from '../../engine/rules/compile/packed.ts';
import type { NodeSource } from '../../engine/rules/compile/tree-builder.ts';
import { listLimits } from '../../engine/rules/read/node-source.ts';
import { operation } from '../../operate/admin/api.ts';
import { askPart } from '../../operate/admin/ask-part.ts';
import type { AdminOptions } from '../../operate/admin/options.ts';
import { ApiProblem } from '../../operate/admin/problem.ts';
import type { OpenOperatorPart } from '../../serve/control/part.ts';
import type { ProcessContext } from '../../serve/parts/process-context.ts';
import type { Settings } from '../../settings/settings.ts';
import type { ListedNotification, NotificationList } from './answers.ts';
import type { Found, Notified } from './open.ts';
import { Webhook } from './webhook.ts';

const COLLECT_INTERVAL_MS = 1_000;
const MAX_LISTED = 100;
/** Maximum number of lines in the log for one collection. */
const MAX_LOGGED = 10;

/** Delivers what deciders find: to the log, to operators, and to a webhook if there is one. */
export const notifyOperations: OpenOperatorPart = (options, { notify }, context) => {
  if (!notify) {
    warnWithoutEffect(options.sourced.book, context.log);
    return { operations: [listOperation(undefined)] };
  }
  const notifications = openNotifications(options, notify, context);
  return {
    operations: [listOperation(notifications)],
    close: every(COLLECT_INTERVAL_MS, () => void notifications.collect().catch(() => {})), // deciders that do not reply keep what they found
  };
};

/** Warns once of rules with `notify`, which nobody is told of. */
function warnWithoutEffect(book: AdminOptions['sourced']['book'], log: ProcessContext['log']): void {
  let hasWarned = false;
  const check = (): void => {
    if (hasWarned || !book.packed()?.some((domain) => mayNotify(domain) && notifies(unpack(domain)))) return;
    hasWarned = true;
    log.warn('rules have notify, which has no effect: set NOTIFY=true or NOTIFY_WEBHOOK_URL');
  };
  check();
  book.onChange(check);
}

/** A quick check: metadata may have such a list, too. */
const mayNotify = ({ pieces }: PackedDomain): boolean => pieces.some((piece) => piece.includes('"notify":['));

/** Whether some limit has `notify`. */
function notifies(nodes: NodeSource): boolean {
  for (let node = nodes.next(); node; node = nodes.next())
    if (listLimits(node.written.block).some(({ values }) => values.notify) || (node.below && notifies(node.below)))
      return true;
  return false;
}

const listOperation = (notifications: Notifications | undefined) =>
  operation('GET /api/v1/notifications', {
    summary: 'counters that passed a share of their limit (notify), the last 100',
    need: 'read',
    domains: 'selected',
    answers:
      'The last ones first. `percent` is the share of the limit, `used` what was used of it when it passed. `dropped` counts those that were too many to be delivered, `waiting` those that the webhook has not taken yet.',
    answer: ({ scope }) => {
      if (!notifications) throw new ApiProblem(404, 'nobody is notified: set NOTIFY or NOTIFY_WEBHOOK_URL');
      const all = notifications.list();
      return { ...all, notifications: all.notifications.filter(({ domain }) => scope.hasDomain(domain)) };
    },
  });

type Notifications = ReturnType<typeof openNotifications>;

function openNotifications(
  options: Pick<AdminOptions, 'ask'>,
  { webhook: to }: NonNullable<Settings['notify']>,
  { log, background, clock }: ProcessContext,
) {
  const webhook =
    to &&
    new Webhook({
      ...to,
      state: background.add('notifications', `sending notifications to ${new URL(to.url).host}`),
      clock,
      sleep: (ms) => sleep(ms, undefined, { ref: false }),
    });
  const listed: ListedNotification[] = [];
  let droppedByDeciders = 0;
  return {
    collect: shareRuns(async () => {
      const replies = await askPart<Found>(options, 'notify', {});
      droppedByDeciders += replies.reduce((sum, { dropped }) => sum + dropped, 0);
      const known = new Set(listed.map(({ id }) => id));
      const added = replies.flatMap(({ notified }) => notified.filter(({ id }) => !known.has(id) && known.add(id)));
      const events = added.sort((one, other) => one.atMs - other.atMs).map(toListed);
      for (const event of events.slice(0, MAX_LOGGED)) log.warn(textOf(event));
      if (events.length > MAX_LOGGED)
        log.warn(`${counted(events.length - MAX_LOGGED, 'more limit')} passed a share (notify)`);
      webhook?.add(events);
      listed.unshift(...events.toReversed());
      listed.splice(MAX_LISTED);
    }),
    list(): NotificationList {
      const { waiting = 0, dropped = 0 } = webhook ?? {};
      return { notifications: [...listed], waiting, dropped: droppedByDeciders + dropped };
    },
  };
}

const toListed = ({ atMs, untilMs, ...event }: Notified): ListedNotification => ({
  ...event,
  at: rfc3339(atMs),
  until: rfc3339(untilMs),
});

const textOf = ({ rule, descriptor, percent, limit }: ListedNotification): string =>
  `${descriptor} has used ${percent} % of ${limit} (${rule})`;
