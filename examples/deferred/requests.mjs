// Settings that the intake and the worker must share.

export const connection = { host: process.env.REDIS_HOST ?? '127.0.0.1', port: Number(process.env.REDIS_PORT ?? 6379) };

export const QUEUE = 'deferred';

/** Deferred requests are counted like those that Envoy sends to Weir: by the same descriptors in the same domain. */
export const line = { domain: 'orders', key: ({ user }) => ({ user }) };
