import { describe, expect, it } from 'vitest'
import { clientGone } from '../../src/errors.ts'
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
