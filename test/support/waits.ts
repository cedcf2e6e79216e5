import { median, percentile } from '../../bench/measure.ts'

/**
 * The number of requests that are measured in a round. With 300 requests the p99 is the third longest wait, and the p99s of two
 * equal services differed by a factor of 1.7.
 */
const asked = 1000
const rounds = 7
/** The number of requests before the measurement in each round, while V8 compiles. */
const warmUps = 20

/**
 * Measures services in turn. @returns the 99th percentile of each service, as the median of some rounds
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
      // The order alternates, so that no service is always the first.
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
