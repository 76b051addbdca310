import type { OpenDeciderPart } from '../../serve/decider/part.ts';
import type { ProfileKind } from './profile.ts';

/** To take a profile, or to end it early. */
export type ProfileQuestion = { readonly what: ProfileKind; readonly seconds: number } | { readonly what: 'end' };

/** Takes profiles of this process. */
export const openProfiles: OpenDeciderPart = () => {
  let taking: AbortController | undefined;
  return {
    async asked(question: ProfileQuestion): Promise<object | undefined> {
      if (question.what === 'end') return void taking?.abort();
      const { takeProfile } = await import('./profile.ts');
      taking = new AbortController();
      return takeProfile(question.what, question.seconds, taking.signal);
    },
  };
};
