import { describe, expect, it, vi } from 'vitest'
import { BytesInFlight } from '../src/http/bytes-in-flight.ts'
import { giveMemoryBackLater } from '../src/garbage.ts'
import { TestClock } from './support/clock.ts'

const megabyte = 1024 ** 2

describe('memory after a burst', () => {
  it('is given back when the last of many bytes is gone, and not after a few', () => {
    const onCalm = vi.fn()
    const inFlight = new BytesInFlight(128 * megabyte, onCalm)
    const few = inFlight.open(1)
    few.set(megabyte)
    few.release()
    expect(onCalm).not.toHaveBeenCalled()
    const [one, other] = [inFlight.open(1), inFlight.open(2)]
    one.set(10 * megabyte)
    other.set(10 * megabyte)
    one.release()
    expect(onCalm).not.toHaveBeenCalled()
    other.release()
    expect(onCalm).toHaveBeenCalledOnce()
  })

  it('is collected once, some seconds after the last that was told', () => {
    const clock = new TestClock()
    const collect = vi.fn()
    const freed = giveMemoryBackLater(clock, collect)
    freed()
    clock.advance(4000)
    freed()
    clock.advance(4000)
    expect(collect).not.toHaveBeenCalled()
    clock.advance(1000)
    expect(collect).toHaveBeenCalledOnce()
    clock.advance(60_000)
    expect(collect).toHaveBeenCalledOnce()
    freed()
    clock.advance(5000)
    expect(collect).toHaveBeenCalledTimes(2)
  })

  it('is collected by the engine', async () => {
    const clock = new TestClock()
    const freed = giveMemoryBackLater(clock)
    const garbage = new WeakRef({ text: 'x'.repeat(1000) })
    // A weak reference is kept to the end of the turn that made it.
    await new Promise((resolve) => setImmediate(resolve))
    freed()
    clock.advance(5000)
    expect(garbage.deref()).toBeUndefined()
  })
})
