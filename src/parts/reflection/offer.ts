import { methodPaths, type SideService } from '../../edge/grpc/side-service.ts';
import type { StartTimer } from './reflection.ts';

const paths = ['v1', 'v1alpha'].flatMap((version) =>
  methodPaths(`grpc.reflection.${version}.ServerReflection`, ['ServerReflectionInfo']),
);

interface ReflectionSources {
  /** Paths of the methods of optional services. */
  readonly offered: () => readonly string[];
  /** Timers for silent streams. Default: Node's timers. */
  readonly startTimer?: StartTimer;
}

/** Offers the reflection service, by which clients find the other services. */
export const offerReflection = ({ offered, startTimer }: ReflectionSources): SideService => ({
  paths,
  async load() {
    const { reflectionMethods } = await import('./reflection.ts');
    return reflectionMethods({ paths, startTimer, offered: offered() });
  },
});
