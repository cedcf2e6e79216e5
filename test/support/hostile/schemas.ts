import { hi, json, postRow, type Row, randomLetters, times } from './row.ts'

/* JSON schemas for the understudy. */

const path = '/chat/completions'

function request(schema: object, more: object = {}) {
  const response_format = { type: 'json_schema', json_schema: { name: 'a', schema } }
  return { model: 'understudy', messages: hi, response_format, ...more }
}

const schemaRow = (name: string, schema: () => object, more: object = {}, row: Partial<Row> = {}): Row =>
  postRow(name, path, () => json(request(schema(), more)), { small: request({ type: 'object' }), ...row })

const heavy = 'x|([a-z]{1000}){9}|([a-z]{1000}){9}|([a-z]{1000}){9}|([a-z]{1000}){9}|([a-z]{1000}){9}'
const branches = () => ({ allOf: times(100_000, () => ({ type: 'object' })) })

export const schemas: readonly Row[] = [
  schemaRow('allOf of 100,000 branches', branches, {}),
  // The model does not exist, so the row shows only the cost of reading a request.
  schemaRow('allOf of 100,000 branches, only read', branches, { model: 'none' }),
  schemaRow(
    '3,000 properties with heavy patterns',
    () => ({
      required: times(3000, (index) => `p${index}`),
      additionalProperties: { pattern: heavy.slice(2) },
    }),
    {},
  ),
  schemaRow('100 items of a heavy pattern', () => ({ type: 'array', minItems: 100, items: { pattern: heavy } })),
  schemaRow(
    '100 unique items of a heavy pattern, 8 choices',
    () => ({ type: 'array', minItems: 100, uniqueItems: true, items: { pattern: '([a-z]{1000}){9}' } }),
    { n: 8 },
  ),
  schemaRow('9,000 items of anyOf with 9,000 branches', () => ({
    type: 'array',
    minItems: 9000,
    items: { anyOf: times(9000, () => ({ type: 'object' })) },
  })),
  schemaRow('9,000 items of an enum with 9,000 values', () => ({
    type: 'array',
    minItems: 9000,
    items: { enum: times(9000, (index) => `value ${index}`) },
  })),
  schemaRow('100 properties with a pattern of 4,900 letters and 2,400 classes', () => {
    const letters = times(4900, (index) => String.fromCharCode(0x4e00 + index)).join('')
    const pattern = `[^${'\\d'.repeat(2400)}${letters}\\w\\W]`
    return {
      required: times(100, (index) => `p${index}`),
      additionalProperties: { $ref: '#/$defs/a' },
      $defs: { a: { pattern } },
    }
  }),
  schemaRow('15,000 items of 5,000 types', () => ({
    type: 'array',
    minItems: 15_000,
    items: { type: times(5000, () => 'null') },
  })),
  schemaRow('15,000 items with an unknown anchor among 5,000 definitions', () => ({
    type: 'array',
    minItems: 15_000,
    items: { $ref: '#none' },
    $defs: Object.fromEntries(times(5000, (index) => [`d${index}`, {}])),
  })),
  schemaRow('an enum of 300 long texts of ligatures', () => ({
    enum: times(300, (index) => `${'\ufdfa'.repeat(1990)}${index}`),
  })),
  ...[16_000, 16_390].map((length) =>
    schemaRow(`400 required names of ${length} letters that differ at the end, joined 45 times`, () => ({
      $defs: { a: { required: times(400, (index) => String(index).padStart(length, 'a')) } },
      allOf: times(45, () => ({ $ref: '#/$defs/a' })),
    })),
  ),
  schemaRow('two enums of 20,000 values joined', () => ({
    enum: times(20_000, (index) => index),
    allOf: [{ enum: times(20_000, (index) => -1 - index) }],
  })),
  schemaRow('9,000 texts of 100,000 characters', () => ({
    type: 'array',
    minItems: 9000,
    items: { type: 'string', minLength: 100_000 },
  })),
  // Just within the budget. The row shows the cost of counting and sending.
  schemaRow(
    '10 long texts of a pattern, streamed',
    () => ({ type: 'array', minItems: 4, items: { pattern: '([a-z]{1000}){9}' } }),
    { stream: true },
  ),
  schemaRow('90,000 random letters, 8 choices', () => ({ const: randomLetters(90_000) }), { n: 8 }),
  schemaRow('100,000 $ref one behind the other', () => ({
    $ref: '#/$defs/0',
    $defs: Object.fromEntries(times(100_000, (index) => [index, { $ref: `#/$defs/${index + 1}` }])),
  })),
  schemaRow(
    'an enum of 300,000 values',
    () => ({ enum: times(300_000, (index) => `value ${index}`) }),
    {},
    { isLargest: true },
  ),
  postRow(
    'a heavy pattern in a tool call',
    path,
    () =>
      json(
        toolRequest({
          required: ['b'],
          properties: { b: { type: 'array', minItems: 100, items: { pattern: heavy } } },
        }),
      ),
    { small: toolRequest({ type: 'object' }) },
  ),
]

function toolRequest(parameters: object) {
  const tools = [{ type: 'function', function: { name: 'a', parameters } }]
  return { model: 'understudy', messages: hi, tool_choice: 'required', tools }
}
