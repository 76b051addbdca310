// Settings that the queue and its workers must share.

export const connection = { host: process.env.REDIS_HOST ?? '127.0.0.1', port: Number(process.env.REDIS_PORT ?? 6379) };

export const QUEUE = 'webhooks';

/** Jobs of a customer share a counter, and are sent in the order in which they were added. */
export const line = { domain: 'webhooks', key: ({ customer }) => ({ customer }) };
