import type { Settings } from '../../settings/settings.ts';

/** @param rules  the path of the rules, overriding the environment */
export const withRules = (settings: Settings, rules: string | undefined): Settings =>
  rules === undefined ? settings : { ...settings, rules: { ...settings.rules, origin: { path: rules } } };
