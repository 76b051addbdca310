import { fields, flag, listOf, oneOf, text, type ValueOf, whole } from '../../base/shape.ts';

const ruleProblem = fields(
  {
    severity: oneOf('error', 'warning'),
    /** `descriptors[2].rate_limit.unit`; empty for the file itself. */
    path: text,
    message: text,
  },
  {
    /** Absent: the problem is in the text that was sent. */
    file: text,
    line: whole,
    column: whole,
    /** The number of problems that this one stands for, if they are not listed. */
    count: whole,
  },
);
export type RuleProblem = ValueOf<typeof ruleProblem>;

export const problemFields = {
  problems: listOf(ruleProblem),
  /** The number of problems that are not listed. */
  moreProblems: whole,
};
const ruleProblems = fields(problemFields);
export type RuleProblems = ValueOf<typeof ruleProblems>;

const ruleCheck = fields({ ok: flag, ...problemFields }, { domain: text, rules: whole });

const ruleFiles = fields({ domain: text, files: listOf(fields({ name: text, text })) });

export const ruleAnswers = {
  'GET /api/v1/rules/text': ruleFiles,
  'POST /api/v1/rules/check': ruleCheck,
};
