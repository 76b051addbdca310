import { fields, listOf } from '../../base/shape.ts';
import { auditLine } from '../../operate/answers/service.ts';

export const auditAnswers = { 'GET /api/v1/audit': fields({ changes: listOf(auditLine) }) };
