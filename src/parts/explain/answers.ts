import { explanation } from '../lab/answers/explain.ts';

export const explainAnswers = { 'POST /api/v1/explain': explanation };
