import type { Answers } from '../../src/operate/answers/all.ts';
import type { TriedCandidate } from '../../src/operate/answers/rules.ts';
import { call, get } from './api.ts';

export const getCandidate = (): Promise<TriedCandidate> => get('candidate');

export const candidateText = async (): Promise<string> => (await get('candidate/text')).text;

export const filesInForce = async (domain: string): Promise<Answers['GET /api/v1/rules/text']['files']> =>
  (await get('rules/text', { domain })).files;

export const checkText = (text: string): Promise<Answers['POST /api/v1/rules/check']> =>
  call('POST /api/v1/rules/check', { body: text });

export const loadCandidate = (text: string, reason: string): Promise<TriedCandidate> =>
  call('POST /api/v1/candidate', { params: { reason }, body: text });

export const clearCandidate = (reason: string): Promise<TriedCandidate> =>
  call('DELETE /api/v1/candidate', { body: { reason } });
