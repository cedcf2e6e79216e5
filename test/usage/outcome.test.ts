import { describe, expect, it } from 'vitest'
import { ApiError, clientGone } from '../../src/errors.ts'
import { type End, Outcome } from '../../src/usage/outcome.ts'
import { isFailure } from '../../src/usage/states.ts'

const error = (status: number, code: string) => new ApiError(status, code, 'It failed.')

describe('the outcome of a chat request', () => {
  it('is "running" until the request has ended', () => {
    const outcome = new Outcome()
    expect(outcome.state).toBe('running')
    expect(outcome.reason).toBeUndefined()
  })

  it('is the first end of the request', () => {
    const outcome = new Outcome()
    expect(outcome.end('length')).toBe(true)
    expect(outcome.end(clientGone())).toBe(false)
    expect(outcome.state).toBe('length')
    expect(outcome.reason).toBe('length')
  })

  it.each<[End, state: string, reason: string, failed: boolean]>([
    ['stop', 'stop', 'stop', false],
    ['tool_calls', 'tool_calls', 'tool_calls', false],
    ['content_filter', 'content_filter', 'content_filter', false],
    [clientGone(), 'client_gone', 'client_gone', false],
    [error(504, 'upstream_timeout'), 'timeout', 'upstream_timeout', true],
    [error(503, 'service_stopping'), 'interrupted', 'service_stopping', true],
    [error(401, 'key_expired'), 'key_revoked', 'key_expired', true],
    [error(403, 'account_suspended'), 'key_revoked', 'account_suspended', true],
    [error(500, 'internal_error'), 'internal_error', 'internal_error', true],
    [error(502, 'upstream_error'), 'upstream_error', 'upstream_error', true],
    [error(503, 'model_unavailable'), 'upstream_error', 'model_unavailable', true],
    [error(429, 'rate_limit_exceeded'), 'upstream_error', 'rate_limit_exceeded', true],
    [error(400, 'context_length_exceeded'), 'refused', 'context_length_exceeded', true],
  ])('has the state and the reason of its end: %s', (end, state, reason, failed) => {
    const outcome = new Outcome()
    outcome.end(end)
    expect(outcome.state).toBe(state)
    expect(outcome.reason).toBe(reason)
    expect(isFailure(outcome.state)).toBe(failed)
  })

  it.each(Object.getOwnPropertyNames(Object.prototype))('has a state for a failure with the code %s', (code) => {
    for (const [status, state] of [
      [400, 'refused'],
      [502, 'upstream_error'],
    ] as const) {
      const outcome = new Outcome()
      outcome.end(error(status, code))
      expect(outcome.state).toBe(state)
    }
  })

  it('is free if the model failed before it sent anything, and not if it failed later or the client left', () => {
    const silent = new Outcome()
    silent.end(error(502, 'upstream_error'))
    expect(silent.isFree).toBe(true)
    const spoken = new Outcome()
    spoken.meter.countText({ content: 'Good morning' })
    spoken.end(error(502, 'upstream_error'))
    expect(spoken.isFree).toBe(false)
    const left = new Outcome()
    left.end(clientGone())
    expect(left.isFree).toBe(false)
  })
})
