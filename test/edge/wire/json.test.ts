import { requestFromJson, responseToJson } from '../../../src/edge/wire/json.ts';
import { InvalidJson } from '../../../src/edge/wire/json-reader.ts';
import { toStruct } from '../../../src/protobuf/struct.ts';

/** A request with one descriptor that has these fields, as JSON. */
const withDescriptor = (fields: string): string => `{"domain": "d", "descriptors": [{${fields}}]}`;

const read = (body: string) => requestFromJson(Buffer.from(body));

const descriptorOf = (fields: string) => read(withDescriptor(fields)).descriptors[0];

describe('a request', () => {
  const full = {
    domain: 'd',
    descriptors: [
      {
        entries: [{ key: 'k', value: 'v' }],
        limit: { requests_per_unit: 5, unit: 2, unit_multiplier: { value: 3 } },
        hits_addend: { value: 7 },
        is_negative_hits: true,
      },
    ],
    hits_addend: 9,
  };

  test.each([
    [
      'camelCase',
      `{"domain": "d", "hitsAddend": 9, "descriptors": [{"entries": [{"key": "k", "value": "v"}], "hitsAddend": 7,
        "isNegativeHits": true, "limit": {"requestsPerUnit": 5, "unit": "MINUTE", "unitMultiplier": 3}}]}`,
    ],
    [
      'the .proto names',
      `{"domain": "d", "hits_addend": 9, "descriptors": [{"entries": [{"key": "k", "value": "v"}], "hits_addend": 7,
        "is_negative_hits": true, "limit": {"requests_per_unit": 5, "unit": 2, "unit_multiplier": 3}}]}`,
    ],
    [
      'numbers as text',
      `{"domain": "d", "hitsAddend": "9", "descriptors": [{"entries": [{"key": "k", "value": "v"}], "hitsAddend": "7",
        "isNegativeHits": true, "limit": {"requestsPerUnit": "5", "unit": "MINUTE", "unitMultiplier": "3"}}]}`,
    ],
  ])('may be written in %s', (_, body) => {
    expect(read(body)).toEqual(full);
  });

  test.each(['{}', '{"domain": null, "descriptors": null, "hitsAddend": null}', ' \n{"descriptors": []}\n '])(
    'has its defaults in %j',
    (body) => {
      expect(read(body)).toEqual({ domain: '', descriptors: [], hits_addend: 0 });
    },
  );

  test.each(['', '"entries": null, "limit": null, "hitsAddend": null, "isNegativeHits": null', '"entries": []'])(
    'has its defaults in a descriptor {%s}',
    (fields) => {
      expect(descriptorOf(fields)).toEqual({ entries: [], limit: null, hits_addend: null, is_negative_hits: false });
    },
  );

  test('has its defaults in an entry and in a limit', () => {
    expect(descriptorOf('"entries": [{}, {"key": null, "value": null}], "limit": {}')).toMatchObject({
      entries: [
        { key: '', value: '' },
        { key: '', value: '' },
      ],
      limit: { requests_per_unit: 0, unit: 0, unit_multiplier: null },
    });
  });

  test.each([
    ['0', 0], // a peek, not the default
    ['7.0', 7],
    ['1e3', 1_000],
    ['18446744073709551615', 2 ** 64],
    ['"18446744073709551615"', 2 ** 64],
    ['"0"', 0],
    ['"7.0"', 7],
    ['"1e3"', 1_000],
  ])('may request %s hits', (written, value) => {
    expect(descriptorOf(`"hitsAddend": ${written}`)?.hits_addend).toEqual({ value });
  });

  test.each([
    ['"UNKNOWN"', 0],
    ['"SECOND"', 1],
    ['"YEAR"', 6],
    ['7', 7], // weeks have no name there
    ['99', 99],
    ['-1', -1],
    ['null', 0],
  ])('may have the unit %s', (written, unit) => {
    expect(descriptorOf(`"limit": {"unit": ${written}}`)?.limit?.unit).toBe(unit);
  });

  test.each([
    ['"domain": 5', 'domain must be a string, got 5'],
    ['"descriptors": {}', 'descriptors must be a list, got an object'],
    ['"descriptors": [null]', 'descriptors[0] must be an object, got null'],
    ['"descriptors": [[]]', 'descriptors[0] must be an object, got a list'],
    ['"descriptors": ["a"]', 'descriptors[0] must be an object, got "a"'],
    ['"hitsAddend": -1', 'hits_addend must be a whole number from 0 to 4294967295, got -1'],
    ['"hitsAddend": 0.5', 'hits_addend must be a whole number from 0 to 4294967295, got 0.5'],
    ['"hitsAddend": 4294967296', 'hits_addend must be a whole number from 0 to 4294967295, got 4294967296'],
    ['"hitsAddend": "4294967296"', 'hits_addend must be a whole number from 0 to 4294967295, got "4294967296"'],
    ['"hitsAddend": "0x10"', 'hits_addend must be a whole number from 0 to 4294967295, got "0x10"'],
    ['"hitsAddend": " 1"', 'hits_addend must be a whole number from 0 to 4294967295, got " 1"'],
    ['"hitsAddend": "01"', 'hits_addend must be a whole number from 0 to 4294967295, got "01"'],
    ['"hitsAddend": true', 'hits_addend must be a whole number from 0 to 4294967295, got true'],
    ['"hitsAddend": {"value": 1}', 'hits_addend must be a whole number from 0 to 4294967295, got an object'],
    ['"domainn": "d"', 'domainn: unknown field; expected one of domain, descriptors, hits_addend'],
    ['"Domain": "d"', 'Domain: unknown field; expected one of domain, descriptors, hits_addend'],
    ['"__proto__": {}', '__proto__: unknown field; expected one of domain, descriptors, hits_addend'],
    ['"constructor": {}', 'constructor: unknown field; expected one of domain, descriptors, hits_addend'],
    ['"hitsAddend": 1, "hits_addend": 1', 'hits_addend: duplicate field'],
    ['"hits_addend": null, "hitsAddend": 1', 'hitsAddend: duplicate field'],
    ['"hitsAddend": 1, "hitsAddend": 1', 'hitsAddend: duplicate field'],
    ['"domain": "d", "domain": "d"', 'domain: duplicate field'],
    ['"domain": null, "domain": null', 'domain: duplicate field'],
    ['"domain": "d", "dom\\u0061in": "d"', 'domain: duplicate field'],
  ])('cannot be {%s}', (fields, message) => {
    expect(() => read(`{${fields}}`)).toThrow(new InvalidJson(message));
  });

  test.each([
    ['"entries": [{"key": 5}]', 'descriptors[0].entries[0].key must be a string, got 5'],
    ['"entries": [{"key": "k", "key": "k"}]', 'descriptors[0].entries[0].key: duplicate field'],
    ['"isNegativeHits": true, "is_negative_hits": true', 'descriptors[0].is_negative_hits: duplicate field'],
    ['"limit": {"unit": 1, "unit": 1}', 'descriptors[0].limit.unit: duplicate field'],
    ['"entries": [{"keys": "k"}]', 'descriptors[0].entries[0].keys: unknown field; expected one of key, value'],
    ['"entries": [{"key": "k"}, null]', 'descriptors[0].entries[1] must be an object, got null'],
    ['"hitsAddend": -1', 'descriptors[0].hits_addend must be a whole number from 0 to 18446744073709551615, got -1'],
    [
      '"hitsAddend": "18446744073709551616"',
      'descriptors[0].hits_addend must be a whole number from 0 to 18446744073709551615, got "18446744073709551616"',
    ],
    ['"isNegativeHits": "true"', 'descriptors[0].is_negative_hits must be true or false, got "true"'],
    ['"limit": 5', 'descriptors[0].limit must be an object, got 5'],
    [
      '"limit": {"unit": "WEEK"}',
      'descriptors[0].limit.unit must be one of UNKNOWN, SECOND, MINUTE, HOUR, DAY, MONTH, YEAR, got "WEEK"',
    ],
    [
      '"limit": {"unit": "toString"}',
      'descriptors[0].limit.unit must be one of UNKNOWN, SECOND, MINUTE, HOUR, DAY, MONTH, YEAR, got "toString"',
    ],
    [
      '"limit": {"unit": 1.5}',
      'descriptors[0].limit.unit must be one of UNKNOWN, SECOND, MINUTE, HOUR, DAY, MONTH, YEAR, got 1.5',
    ],
    [
      '"limit": {"requestsPerUnit": 4294967296}',
      'descriptors[0].limit.requests_per_unit must be a whole number from 0 to 4294967295, got 4294967296',
    ],
  ])('cannot have a descriptor {%s}', (fields, message) => {
    expect(() => read(withDescriptor(fields))).toThrow(new InvalidJson(message));
  });

  test.each([
    '',
    '}',
    '{',
    '{"domain": "d"} {}',
    '{"domain": "d"}x',
    "{'domain': 'd'}",
    '{"domain": "d",}',
    'domain: d',
  ])('cannot be %j, which is not JSON', (body) => {
    expect(() => read(body)).toThrow(InvalidJson);
    expect(() => read(body)).toThrow(/^not JSON: /);
  });

  test.each([
    ['null', 'null'],
    ['[]', 'a list'],
    ['"d"', '"d"'],
    ['5', '5'],
  ])('cannot be %s, which is not an object', (body, got) => {
    expect(() => read(body)).toThrow(new InvalidJson(`the body must be an object, got ${got}`));
  });
});

describe('a response', () => {
  const status = { code: 1, limit_remaining: 0 };
  const current_limit = { name: '', requests_per_unit: 5, unit: 2 };

  test.each([
    [
      'over the limit',
      {
        overall_code: 2,
        statuses: [{ code: 2, current_limit, limit_remaining: 0, duration_until_reset: { seconds: 37, nanos: 0 } }],
      },
      {
        overallCode: 'OVER_LIMIT',
        statuses: [
          { code: 'OVER_LIMIT', currentLimit: { requestsPerUnit: 5, unit: 'MINUTE' }, durationUntilReset: '37s' },
        ],
      },
    ],
    [
      'a limit with every field',
      {
        overall_code: 1,
        statuses: [
          {
            code: 1,
            current_limit: { name: 'n', requests_per_unit: 5, unit: 7, unit_multiplier: { value: 2 } },
            limit_remaining: 4,
          },
        ],
      },
      {
        overallCode: 'OK',
        statuses: [
          {
            code: 'OK',
            currentLimit: { name: 'n', requestsPerUnit: 5, unit: 'WEEK', unitMultiplier: 2 },
            limitRemaining: 4,
          },
        ],
      },
    ],
    [
      'a limit of nothing per nothing',
      { overall_code: 1, statuses: [{ ...status, current_limit: { name: '', requests_per_unit: 0, unit: 0 } }] },
      { overallCode: 'OK', statuses: [{ code: 'OK', currentLimit: {} }] },
    ],
    [
      'unlimited',
      { overall_code: 1, statuses: [{ code: 1, limit_remaining: 4_294_967_295 }] },
      { overallCode: 'OK', statuses: [{ code: 'OK', limitRemaining: 4_294_967_295 }] },
    ],
  ])('%s', (_, response, expected) => {
    expect(responseToJson({ ...response, response_headers_to_add: [] })).toStrictEqual(expected);
  });

  test('has the headers, and its fields in the order of envoyproxy/ratelimit', () => {
    const response = {
      overall_code: 1,
      statuses: [
        {
          code: 1,
          current_limit: { ...current_limit, name: 'n' },
          limit_remaining: 4,
          duration_until_reset: { seconds: 1, nanos: 0 },
        },
      ],
      response_headers_to_add: [{ key: 'RateLimit-Limit', value: '5' }],
    };
    expect(JSON.stringify(responseToJson(response))).toBe(
      '{"overallCode":"OK","statuses":[{"code":"OK","currentLimit":{"name":"n","requestsPerUnit":5,"unit":"MINUTE"},' +
        '"limitRemaining":4,"durationUntilReset":"1s"}],"responseHeadersToAdd":[{"key":"RateLimit-Limit","value":"5"}]}',
    );
  });

  test('has its metadata as JSON, with unchanged names', () => {
    const weir = { delay_ms: 200, statuses: [{ index: 0, rule: 'demo.user', soft: true, window_ms: 1_500 }] };
    const response = {
      overall_code: 1,
      statuses: [status],
      response_headers_to_add: [],
      dynamic_metadata: toStruct({ weir }),
    };
    expect(responseToJson(response)).toEqual({
      overallCode: 'OK',
      statuses: [{ code: 'OK' }],
      dynamicMetadata: { weir },
    });
  });
});

test('numbers of millions of digits are refused without being calculated', () => {
  const digits = '9'.repeat(3_000_000);
  for (const hits of [digits, `"${digits}"`]) {
    expect(() => read(`{"domain":"d","hits_addend":${hits}}`)).toThrow(
      /^hits_addend must be a whole number from 0 to 4294967295, got .{1,101}$/,
    );
  }
});

describe('a string', () => {
  test.each([
    ['\\"\\\\\\/\\b\\f\\n\\r\\t', '"\\/\b\f\n\r\t'],
    ['\\u0041\\u00e9\\u20AC\\uD83D\\uDE00', 'Aé€😀'],
    ['aé€😀\\n😀é', 'aé€😀\n😀é'],
    ['', ''],
    ['\\u0000', '\0'],
    ['\u007f\u2028', '\u007f\u2028'],
  ])('may be written "%s"', (written, value) => {
    expect(read(`{"domain": "${written}"}`).domain).toBe(value);
  });

  test.each(['\\x', '\\u12', '\\u12g4', '\\u 123', '\\', '\n', '\0', '\\U0041', '\u001f'])(
    'cannot be written "%s"',
    (written) => {
      expect(() => read(`{"domain": "${written}"}`)).toThrow(/^not JSON: expected .* at octet \d+, got /);
    },
  );

  test.each(['\\ud800', '\\udc00', '\\ud800x', '\\udc00\\ud800'])('cannot have lone surrogates: "%s"', (written) => {
    expect(() => read(`{"domain": "${written}"}`)).toThrow(
      new InvalidJson(`domain must be text without lone surrogates, got "${written}"`),
    );
  });

  test.each([
    ['an octet that begins nothing', [0xff]],
    ['half of a character', [0xc3]],
    ['a character written longer than need be', [0xc0, 0xaf]],
    ['a surrogate', [0xed, 0xa0, 0x80]],
  ])('cannot have %s, like over gRPC', (_, octets) => {
    const body = Buffer.concat([Buffer.from('{"domain": "'), Buffer.from(octets), Buffer.from('"}')]);
    expect(() => requestFromJson(body)).toThrow(new InvalidJson('not JSON: not UTF-8'));
  });
});

describe('the largest valid request', () => {
  const texts = [
    'x'.repeat(16_384),
    'é'.repeat(16_384),
    '😀'.repeat(8_192),
    '\\u0041'.repeat(16_384),
    '\\n'.repeat(16_384),
  ];

  test('is decoded in full', () => {
    const entry = '{"key": "k"}';
    const descriptor = `{"entries": [${Array(64).fill(entry)}]}`;
    const { descriptors } = read(`{"domain": "d", "descriptors": [${Array(256).fill(descriptor)}]}`);
    expect(descriptors.map(({ entries }) => entries.length)).toEqual(Array(256).fill(64));
    for (const text of texts) {
      expect(read(`{"domain": "${text}"}`).domain).toHaveLength(16_384);
      expect(descriptorOf(`"entries": [{"key": "${text}"}]`)?.entries[0]?.key).toHaveLength(16_384);
    }
  });

  // The rest is not JSON: without an error, it was not read.
  const unread = ' and the rest is not read';
  test.each([
    [
      'descriptors',
      `{"descriptors": [${Array(257).fill('{}')}${unread}`,
      'descriptors must have at most 256 descriptors',
    ],
    [
      'entries',
      `{"descriptors": [{"entries": [${Array(65).fill('{}')}${unread}`,
      'descriptors[0].entries must have at most 64 entries',
    ],
    ...texts.map((text) => [
      'characters of a text',
      `{"domain": "${text}x${unread}`,
      'domain must have at most 16384 characters',
    ]),
    [
      'characters of a value',
      `{"descriptors": [{"entries": [{"value": "${texts[0]}x`,
      'descriptors[0].entries[0].value must have at most 16384 characters',
    ],
    ['unknown fields', `{"x": 1${unread}`, 'x: unknown field; expected one of domain, descriptors, hits_addend'],
    ['fields of the same name', `{"domain": "d", "domain"${':'}${unread}`, 'domain: duplicate field'],
    ['lists in place of a text', `{"domain": [[[[${unread}`, 'domain must be a string, got a list'],
    ['objects in place of a text', `{"domain": {"a": {${unread}`, 'domain must be a string, got an object'],
    [
      'digits',
      `{"hits_addend": ${'1'.repeat(1_000)}${unread}`,
      `hits_addend must be a whole number from 0 to 4294967295, got ${'1'.repeat(100)}`,
    ],
  ])('ends decoding when exceeded: more %s', (_, body, message) => {
    expect(() => read(body)).toThrow(new InvalidJson(message));
  });

  test('has short field names, so the rest of a longer name is not read', () => {
    expect(() => read(`{"${'x'.repeat(1_000)}${unread}`)).toThrow(
      new InvalidJson(`"${'x'.repeat(99)}: unknown field; expected one of domain, descriptors, hits_addend`),
    );
  });
});
