/** The entry of `weir-rls/engine`: decisions in the process of their caller. */

export { TooCostly } from '../base/request-work.ts';
export type {
  DecideOptions,
  Engine,
  EngineDescriptor,
  EngineOptions,
  EngineRequest,
  EngineRules,
} from './create-engine.ts';
export { createEngine } from './create-engine.ts';
export type { Answer, Verdict } from './decide/decide.ts';
export { CountersUnavailable, InvalidRequest, RulesNotLoaded } from './decide/decide.ts';
export type { Refusal } from './decide/refusal.ts';
export type {
  CounterOptions,
  KeyOptions,
  MemcachedStore,
  OwnStore,
  RedisOptions,
  RedisStore,
  StoreEvent,
  StoreOptions,
} from './open/options.ts';
export { InvalidOptions } from './open/options.ts';
export type { RuleFiles, RuleOptions, RulesLoaded, RuleTexts } from './open/rule-options.ts';
export { InvalidRules } from './open/rule-options.ts';
export type { Problem } from './rules/read/problem.ts';
