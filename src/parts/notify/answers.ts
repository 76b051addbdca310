import { fields, listOf, number, text, time, type ValueOf, whole } from '../../base/shape.ts';

const notification = fields({
  /** Equal in all instances for the same share of the same counter in the same window. */
  id: text,
  at: time,
  /** When the hits come back, or may begin to. */
  until: time,
  domain: text,
  rule: text,
  /** `user=alice`. */
  descriptor: text,
  /** `5 per minute`. */
  limit: text,
  /** Of the limit. */
  percent: whole,
  used: number,
});
export type ListedNotification = ValueOf<typeof notification>;

const notifications = fields({ notifications: listOf(notification), waiting: whole, dropped: whole });
export type NotificationList = ValueOf<typeof notifications>;

export const notificationAnswers = { 'GET /api/v1/notifications': notifications };
