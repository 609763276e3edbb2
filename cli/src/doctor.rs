use crate::{Ending, commandline::DoctorArguments};
use anyhow::Result;
pub fn doctor(_: &DoctorArguments) -> Result<Ending> {
    todo!()
}
