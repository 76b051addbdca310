import { types } from 'node:util';

/**
 * Jest gives each test file its own `Error`, but what Node's modules throw is made from another one. With this import
 * `instanceof Error` holds for those as well, as it does wherever the service really runs.
 */
Object.defineProperty(Error, Symbol.hasInstance, {
  value(this: unknown, thrown: unknown): boolean {
    return this === Error ? types.isNativeError(thrown) : Function.prototype[Symbol.hasInstance].call(this, thrown);
  },
});
