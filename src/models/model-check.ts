import { type Clock, machineClock } from '../clock.ts'
import type { Config } from '../config.ts'
import { ApiError, toApiError } from '../errors.ts'
import type { Message } from '../openai/completion-request.ts'
import { workAtOnce } from '../work/work.ts'
import { loadModels } from './configuration/configuration.ts'
import { isFallback } from './configuration/model-settings.ts'
import { UpstreamReason } from './reason.ts'
import { ModelRegistry } from './registry.ts'
import { fitParameters } from './request-parameters.ts'

/** The result of a test request to one model. */
export interface ModelCheck {
  readonly model: string
  readonly adapter: string
  /** `ok`, `not asked`, or the code of the error. */
  readonly state: string
  readonly ms: number | null
  readonly message: string | null
}

/** The state of a prefix: a prefix has no model id that could be asked for. */
export const notAsked = 'not asked'

/** The test request. */
const testMessages: readonly Message[] = [{ role: 'user', content: 'Say one word.' }]

const timeoutMs = 30_000

/**
 * Asks each configured model for one word, one after the other. Prefixes are not asked, because they have no model id.
 * Understudies that misbehave on purpose count as `ok` without a request.
 * @throws ConfigError for the same faults as `loadModels`
 */
export async function checkModels(config: Config, clock = machineClock): Promise<readonly ModelCheck[]> {
  const configuration = await loadModels(config)
  const registry = new ModelRegistry(configuration, config, undefined, clock)
  const checks: ModelCheck[] = []
  try {
    for (const [model, settings] of configuration.models) {
      const adapter = isFallback(settings) ? 'fallback' : settings.adapter
      if (model.endsWith('*')) {
        checks.push({ model, adapter, state: notAsked, ms: null, message: 'takes any id, so there is no model to ask' })
      } else if (adapter.startsWith('understudy/')) {
        checks.push({ model, adapter, state: 'ok', ms: null, message: 'misbehaves on purpose' })
      } else {
        checks.push({ model, adapter, ...(await ask(registry, model, clock)) })
      }
    }
  } finally {
    await registry.close()
  }
  return checks
}

async function ask(
  registry: ModelRegistry,
  model: string,
  clock: Clock,
): Promise<Pick<ModelCheck, 'state' | 'ms' | 'message'>> {
  const begun = clock.now()
  const giveUp = new AbortController()
  const timer = clock.setTimeout(() => {
    giveUp.abort(new ApiError(504, 'upstream_timeout', `The model has not answered for ${timeoutMs / 1000} s.`))
  }, timeoutMs)
  try {
    await registry.resolve(model).complete({
      requestFor: ({ traits }) => ({
        body: fitParameters({ model: traits.upstreamId, messages: testMessages }, traits).body,
        persona: { name: null, card: null, userName: 'User' },
        work: workAtOnce(),
      }),
      signal: giveUp.signal,
    })
    return { state: 'ok', ms: Math.round(clock.now() - begun), message: null }
  } catch (thrown) {
    const { code, message, cause } = toApiError(thrown)
    const why = cause instanceof UpstreamReason ? cause.sentence : undefined
    return { state: code, ms: Math.round(clock.now() - begun), message: why ? `${message} ${why}` : message }
  } finally {
    timer.close()
  }
}
