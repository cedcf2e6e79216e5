import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ApiError, clientGone } from '../../src/errors.ts'
import { LocalLimiter } from '../../src/limits/local-limiter.ts'
import type { Ledger, LedgerEntry } from '../../src/usage/ledger.ts'
import { Metering } from '../../src/usage/metered-request.ts'
import { Outcome } from '../../src/usage/outcome.ts'
import { keyOf } from '../support/limits.ts'

/** The steps of the end of a request that may throw. */
const steps = ['promptTokens', 'used', 'truncated', 'finish', 'rejected', 'onFailure', 'record'] as const
type Step = (typeof steps)[number]

const reserved = { prompt: 100, reply: 200 }

/** Meters requests of one key, of which one step throws while it is `failing`. */
function meteringWith(failing: { step: Step | undefined }) {
  const ended: LedgerEntry[] = []
  const step = (name: Step) => {
    if (failing.step === name) throw new Error(`${name} fails`)
  }
  const ledger: Pick<Ledger, 'begin' | 'finish' | 'record'> = {
    begin: async () => {},
    finish(entry) {
      step('finish')
      if (failing.step === 'rejected' || failing.step === 'onFailure') return Promise.reject(new Error('rejected'))
      ended.push(entry)
      return Promise.resolve()
    },
    record(entry) {
      step('record')
      ended.push(entry)
    },
  }
  const limiter = new LocalLimiter({ settings: {}, spent: async () => 0 })
  const metering = new Metering({
    limiter,
    ledger: { ...unused, ...ledger },
    onFailure: () => step('onFailure'),
    watch: { used: () => step('used'), truncated: () => step('truncated') },
  })
  return { limiter, metering, ended, step }
}

const unused: Ledger = {
  begin: async () => {},
  finish: async () => {},
  record() {},
  spent: async () => 0,
  interruptRunning: async () => 0,
  addToDaySums: async () => 0,
  flush: async () => {},
  prune: async () => 0,
}

describe.each([
  ['a limit for a day', { chat_at_once: 1, tokens_per_day: 300 }],
  ['no limit for a day', { chat_at_once: 1, tokens_per_minute: 300 }],
])('the end of a request with %s', (_title, limits) => {
  it.each(steps)('gives back its place and its reserved tokens if %s throws', async (failingStep) => {
    const failing: { step: Step | undefined } = { step: undefined }
    const { limiter, metering, ended, step } = meteringWith(failing)
    const key = keyOf('1', 1, limits)
    const enter = async (outcome = new Outcome()) =>
      metering.enter(
        {
          id: 'req_1',
          key,
          model: 'any',
          character: null,
          promptTokens() {
            step('promptTokens')
            return reserved.prompt
          },
          replyTokens: () => reserved.reply,
        },
        outcome,
      )
    const outcome = new Outcome()
    outcome.answering = { name: 'any', configuredName: 'any', retries: 0 }
    outcome.truncated = '1/100'
    const metered = await enter(outcome)
    failing.step = failingStep
    const end = async () => metered.end(clientGone())
    await end().catch((error: unknown) => expect(error).toBeInstanceOf(Error))
    failing.step = undefined

    expect(limiter.inFlightChats).toBe(0)
    const { chats, reservedTokens } = await limiter.readTallies(key, ({ key: tally }) => ({
      chats: tally.chats,
      reservedTokens: tally.reserved,
    }))
    expect([chats, reservedTokens]).toEqual([0, 0])
    // A failure of another step than the record leaves no running request.
    const isRecorded = 'tokens_per_minute' in limits ? failingStep !== 'record' : !isOfFinish(failingStep)
    expect(ended.map(({ state }) => state)).toEqual(isRecorded ? ['client_gone'] : [])
    // Without a count of the prompt, the reserved tokens are spent.
    if (isRecorded) expect(ended[0]?.promptTokens).toBe(failingStep === 'promptTokens' ? 300 : reserved.prompt)
  })
})

function isOfFinish(step: Step): boolean {
  return step === 'finish' || step === 'rejected' || step === 'onFailure'
}

const ends = {
  'a client that leaves': clientGone(),
  'a key that is revoked': new ApiError(401, 'key_revoked', 'It is revoked.'),
  'a timeout of the operator': new ApiError(504, 'upstream_timeout', 'It took too long.'),
  'a service that stops': new ApiError(503, 'service_stopping', 'It stops.'),
  'a failure of the upstream': new ApiError(502, 'upstream_error', 'It failed.'),
  'a refusal': new ApiError(400, 'upstream_refused', 'No.'),
} as const

describe.each(Object.entries(ends))('the charge after %s', (title, end) => {
  const isOfCaller = title === 'a client that leaves' || title === 'a key that is revoked'

  it('is the prompt and the seen tokens, and by time up to the reservation only if the caller ended the request', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.nat(400),
        fc.nat(100_000),
        fc.boolean(),
        fc.boolean(),
        async (seen, milliseconds, isSent, isExact) => {
          let now = 5
          const outcome = new Outcome({ now: () => now })
          const { metering, ended } = meteringWith({ step: undefined })
          const metered = await metering.enter(
            {
              id: 'req_1',
              key: keyOf('1', 1, { tokens_per_day: 1000 }),
              model: 'any',
              character: null,
              promptTokens: () => reserved.prompt,
              replyTokens: () => reserved.reply,
            },
            outcome,
          )
          if (isSent) outcome.noteSent(true)
          now += milliseconds
          metered.meter.countText({ content: 'x'.repeat(4 * seen) })
          const usage = { prompt_tokens: 7, completion_tokens: seen, total_tokens: 7 + seen }
          if (isExact) metered.meter.setUsage(usage, true)
          await metered.end(end)
          const isFree = outcome.isFree
          const byTime = isSent && isOfCaller ? Math.min(reserved.reply, Math.ceil((milliseconds * 60) / 1000)) : 0
          expect(ended).toMatchObject([
            isExact
              ? { promptTokens: 7, completionTokens: seen, tokensExact: true }
              : {
                  promptTokens: isFree ? 0 : reserved.prompt,
                  completionTokens: Math.max(seen, byTime),
                  tokensExact: false,
                },
          ])
        },
      ),
    )
  })
})
