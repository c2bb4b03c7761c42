//! gRPC reflection: lets `grpcurl` and its like find out what this server speaks.

use super::direct;
use super::proto::DESCRIPTORS;
use tonic_reflection::server::{Builder, Error, v1, v1alpha};

/// The service of today. Fails only if the descriptors are faulty.
pub fn reflection_v1() -> Result<v1::ServerReflectionServer<impl v1::ServerReflection>, Error> {
    descriptors(DESCRIPTORS).build_v1()
}

/// The service that older clients ask. Fails only if the descriptors are faulty.
pub fn reflection_v1alpha()
-> Result<v1alpha::ServerReflectionServer<impl v1alpha::ServerReflection>, Error> {
    descriptors(DESCRIPTORS).build_v1alpha()
}

/// The service of today, for the direct API. Fails only if the descriptors are faulty.
pub fn direct_reflection_v1() -> Result<v1::ServerReflectionServer<impl v1::ServerReflection>, Error>
{
    descriptors(direct::proto::DESCRIPTORS).build_v1()
}

/// The service that older clients ask, for the direct API. Fails only if the descriptors are faulty.
pub fn direct_reflection_v1alpha()
-> Result<v1alpha::ServerReflectionServer<impl v1alpha::ServerReflection>, Error> {
    descriptors(direct::proto::DESCRIPTORS).build_v1alpha()
}

fn descriptors(ours: &'static [u8]) -> Builder<'static> {
    Builder::configure()
        .register_encoded_file_descriptor_set(ours)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_reflection_services_can_be_built() {
        assert!(reflection_v1().is_ok());
        assert!(reflection_v1alpha().is_ok());
        assert!(direct_reflection_v1().is_ok());
        assert!(direct_reflection_v1alpha().is_ok());
    }
}
