import type { Answer } from '../../engine/decide/decide.ts';
import { encodeAnswer } from '../../engine/wire/codec.ts';
import { createRefusal, type Refusal } from '../../engine/wire/refusal.ts';
import type { WireRequest, WireResponse } from '../../engine/wire/wire.ts';
import type { WireStruct } from '../../protobuf/struct.ts';
import type { Extras } from './service.ts';

/** The response to a request, with its headers and metadata, and the body that the refusing rule has for clients. */
export function createResponse(
  request: WireRequest,
  answer: Answer,
  { headers, metadata, maxWaitMs }: Extras,
  detail?: WireStruct,
): WireResponse {
  const response = encodeAnswer(answer, headers(answer), metadata(request, answer), detail);
  if (answer.overallCode === 'OK') return response;
  const refusal = createRefusal(answer, maxWaitMs);
  return refusal ? withRefusal(response, refusal) : response;
}

/** The rule's headers replace others of the same name. */
function withRefusal(response: WireResponse, { contentType, body, headers }: Refusal): WireResponse {
  const own = [{ key: 'content-type', value: contentType }, ...headers];
  const names = new Set(own.map(({ key }) => key.toLowerCase()));
  const others = response.response_headers_to_add.filter(({ key }) => !names.has(key.toLowerCase()));
  return { ...response, response_headers_to_add: [...others, ...own], raw_body: Buffer.from(body) };
}
