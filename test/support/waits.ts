import { median, percentile } from '../../bench/measure.ts'

/**
 * The requests that are measured in a round. With 300 the p99 is the third longest, and the p99s of two equal services differed
 * by a factor of 1.7.
 */
const asked = 1000
const rounds = 7
/** The requests before them in each round, while V8 compiles. */
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
      // The order alternates: each service is first as often as last.
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
