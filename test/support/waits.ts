import { median, percentile } from '../../bench/measure.ts'

/** Of each kind of request, how many are measured in a round: a p99 of 300 was the third longest, and swung by 1.7 between two services that were alike. */
const asked = 1000
const rounds = 7
/** How many come before those, while code is compiled. */
const warmUps = 20

/**
 * The 99th percentiles of services that are measured in turn, each the median of some rounds.
 * @param ask sends one request to a service, and returns its duration in milliseconds
 */
export async function p99sOf<Service>(
  services: readonly Service[],
  ask: (service: Service) => Promise<number>,
): Promise<readonly number[]> {
  const found = services.map((): number[] => [])
  for (let round = 0; round < rounds; round++) {
    const times = services.map((): number[] => [])
    for (let turn = 0; turn < warmUps + asked; turn++) {
      // Each is as often the first as the last: the one before leaves garbage to the one after it.
      const order = [...services.entries()]
      for (const [index, service] of turn % 2 === 0 ? order : order.toReversed()) {
        const took = await ask(service)
        if (turn >= warmUps) times[index]?.push(took)
      }
    }
    for (const [index, each] of times.entries()) found[index]?.push(percentile(each, 99))
  }
  return found.map((each) => median(each))
}
