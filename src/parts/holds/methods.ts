import type { ServiceDefinition } from '@grpc/proto-loader';
import { hostedMethods } from '../../edge/grpc/proto-services.ts';
import type { Overload } from '../../edge/overload/overload.ts';
import type { Method } from '../../h2/grpc/method.ts';
import { loadProtos } from '../../protobuf/load.ts';
import type { HoldsService } from './service.ts';

export const holdsService = loadProtos(['weir/v1/holds.proto'], 'numbers')['weir.v1.Holds'] as ServiceDefinition; // a service in the file

export const holdsMethods = (holds: HoldsService, overload: Overload): readonly Method[] =>
  hostedMethods(holdsService, holds, overload);
