import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import fc from 'fast-check'
import { describe, expect, it, vi } from 'vitest'
import { boundGarbage, releaseIdleMemory, thisProcess } from '../src/garbage.ts'
import { TestClock } from './support/clock.ts'
import { projectFolder } from './support/process.ts'

const megabyte = 1024 ** 2

/** A process with scripted memory and load. After a collection it has `inUse` MB. */
function watched({ inUse = 100 } = {}) {
  const clock = new TestClock()
  const state = { resident: inUse, inUse, busy: 0 }
  const collect = vi.fn((_isThorough: boolean) => {
    state.resident = state.inUse
  })
  releaseIdleMemory(clock, { residentBytes: () => state.resident * megabyte, busyShare: () => state.busy, collect })
  return { clock, state, collect }
}

describe('memory after a burst', () => {
  it('is released after 25 idle seconds, and only once', () => {
    const { clock, state, collect } = watched()
    Object.assign(state, { resident: 300, busy: 0.9 })
    clock.advance(60_000)
    expect(collect).not.toHaveBeenCalled()
    state.busy = 0.01
    clock.advance(20_000)
    expect(collect).not.toHaveBeenCalled()
    clock.advance(5000)
    expect(collect).toHaveBeenCalledOnce()
    clock.advance(300_000)
    expect(collect).toHaveBeenCalledOnce()
    Object.assign(state, { resident: 300, busy: 0.9 })
    clock.advance(5000)
    state.busy = 0.01
    clock.advance(25_000)
    expect(collect).toHaveBeenCalledTimes(2)
  })

  it('is released although some checks were a little busy: an idle process on a busy machine takes more time', () => {
    const { clock, state, collect } = watched()
    Object.assign(state, { resident: 300, inUse: 200 })
    for (const busy of [0.02, 0.06, 0.04, 0.07, 0.03]) {
      state.busy = busy
      clock.advance(5000)
    }
    expect(collect).toHaveBeenCalledOnce()
    state.inUse = 100
    for (const busy of [0.06, 0.02]) {
      state.busy = busy
      clock.advance(5000)
    }
    expect(state.resident).toBe(100)
  })

  it('is not released in pauses of 20 seconds, after which the code of requests would be compiled again', () => {
    const { clock, state, collect } = watched()
    state.resident = 300
    for (let burst = 0; burst < 10; burst++) {
      state.busy = 0.9
      clock.advance(5000)
      state.busy = 0.01
      clock.advance(20_000)
    }
    expect(collect).not.toHaveBeenCalled()
  })

  it('is not collected after little growth', () => {
    const { clock, state, collect } = watched()
    state.resident = 130
    clock.advance(300_000)
    expect(collect).not.toHaveBeenCalled()
  })

  it('is collected again after a cache has expired', () => {
    const { clock, state, collect } = watched()
    Object.assign(state, { resident: 300, inUse: 200 })
    clock.advance(25_000)
    expect(state.resident).toBe(200)
    state.inUse = 100
    clock.advance(10_000)
    expect(state.resident).toBe(100)
    expect(collect).toHaveBeenCalledTimes(2)
  })

  it('is released within a minute if a cache keeps it for 30 seconds, however many bursts came before', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 100_000 }), { maxLength: 4 }), (pauses) => {
        const { clock, state } = watched()
        const expiry = clock.setTimeout(() => {
          state.inUse = 100
        }, 30_000)
        for (const pause of [...pauses, 1]) {
          clock.advance(pause)
          Object.assign(state, { resident: 300, inUse: 200 })
          expiry.refresh()
        }
        clock.advance(60_000)
        expect(state.resident).toBe(100)
      }),
    )
  })

  it('counts as in use if several collections did not free it, and is then the new baseline', () => {
    const { clock, state, collect } = watched()
    Object.assign(state, { resident: 300, inUse: 200 })
    clock.advance(200_000)
    expect(collect.mock.calls).toEqual([[false], [true], [false], [false], [false], [false]])
    clock.advance(600_000)
    expect(collect).toHaveBeenCalledTimes(6)
    state.resident = 300
    clock.advance(25_000)
    expect(collect).toHaveBeenCalledTimes(7)
  })

  it('is freed by the function that the service calls to collect garbage', async () => {
    const garbage = new WeakRef({ text: 'x'.repeat(1000) })
    // V8 keeps the target of a weak reference until the end of the turn that made the reference.
    await new Promise((resolve) => setImmediate(resolve))
    thisProcess().collect(false)
    expect(garbage.deref()).toBeUndefined()
  })

  it('includes the free pages of the heap, which only a thorough collection always releases', async () => {
    // Without this option V8 may release the pages itself, some seconds after a collection.
    const args = ['--no-memory-reducer', 'test/support/free-pages.ts']
    const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: projectFolder })
    const { collectedMegabytes, thoroughMegabytes } = JSON.parse(stdout)
    expect(collectedMegabytes).toBeGreaterThan(200)
    expect(thoroughMegabytes).toBeLessThan(130)
  })

  it('is measured, and so is the busy share of the main thread', async () => {
    const begin = performance.now()
    const measured = thisProcess()
    const start = process.threadCpuUsage().user
    while (process.threadCpuUsage().user - start < 50_000);
    const share = measured.busyShare()
    // On a busy machine the 50 ms of CPU time take longer.
    expect(share).toBeGreaterThanOrEqual(50 / (performance.now() - begin))
    expect(share).toBeLessThan(1.1)
    expect(measured.residentBytes()).toBeGreaterThan(10 * megabyte)
  })
})

describe('garbage under load', () => {
  const largestHeap = async (...bound: readonly string[]): Promise<number> => {
    const args = ['--expose-gc', '--max-semi-space-size=16', 'test/support/churn.ts', ...bound]
    const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: projectFolder })
    return JSON.parse(stdout).maxMegabytes
  }

  it('stays in proportion to what is in use', async () => {
    const [bounded, unbounded] = await Promise.all([largestHeap('bound'), largestHeap()])
    // 150 MB are in use. Without the bound V8 lets the heap grow to 450 MB.
    expect(unbounded).toBeGreaterThan(400)
    expect(bounded).toBeLessThan(350)
  })

  it('does not enter the old space because earlier objects lived long', async () => {
    const garbage = async (...apart: readonly string[]): Promise<number> => {
      // With one thread V8 always optimizes the same code at the same time, also on a busy machine. With a large initial old
      // space V8 collects only new objects: a collection of old objects would change both figures.
      const flags = ['--single-threaded', '--max-semi-space-size=4', '--initial-old-space-size=1024']
      const args = [...flags, 'test/support/long-start.ts', ...apart]
      const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: projectFolder })
      return JSON.parse(stdout).garbageMegabytes
    }
    const [apart, byDefault] = await Promise.all([garbage('apart'), garbage()])
    // All garbage together has some 210 MB.
    expect(byDefault).toBeGreaterThan(200)
    expect(apart).toBeLessThan(10)
  })

  it('is bounded, and more closely while the heap is large', () => {
    const clock = new TestClock()
    const heap = { usedBytes: 30 * megabyte }
    const factors: number[] = []
    boundGarbage(clock, { usedBytes: () => heap.usedBytes, setGrowth: (percent) => factors.push(percent) })
    clock.advance(10_000)
    expect(factors).toEqual([100])
    heap.usedBytes = 100 * megabyte
    clock.advance(50)
    expect(factors).toEqual([100, 40])
    clock.advance(10_000)
    expect(factors).toEqual([100, 40])
    heap.usedBytes = 50 * megabyte
    clock.advance(50)
    expect(factors).toEqual([100, 40, 100])
  })
})
