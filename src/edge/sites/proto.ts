import type { MethodDefinition, ServiceDefinition } from '@grpc/proto-loader';
import { loadProtos } from '../../protobuf/load.ts';
import type { BorrowRequest, BorrowResponse } from './messages.ts';

const definitions = loadProtos(['weir/v1/sites.proto'], 'numbers');

export const sitesService = definitions['weir.v1.Sites'] as ServiceDefinition; // a service in the file

/** `Sites/Borrow`: its path, encoder and decoder. */
// by the file's own types
export const borrowMethod = sitesService.Borrow as MethodDefinition<BorrowRequest, BorrowResponse>;
